#include "data/jpeg_reader.h"

namespace slipstream::jpeg {
namespace {

// More scans than any encoder writes; each costs a pass over the whole image.
constexpr int kMaxScans = 500;

void on_progress(j_common_ptr info) {
  if (reinterpret_cast<j_decompress_ptr>(info)->input_scan_number > kMaxScans) {
    fail(info, "it has too many scans");
  }
}

}  // namespace

Reader::Reader() {
  set_up(errors);
  info.err = &errors.manager;
  progress.progress_monitor = on_progress;
}

j_common_ptr common(jpeg_decompress_struct& info) { return reinterpret_cast<j_common_ptr>(&info); }

JSAMPARRAY row_memory(jpeg_decompress_struct& info, JDIMENSION bytes, JDIMENSION rows) {
  return info.mem->alloc_sarray(common(info), JPOOL_IMAGE, bytes, rows);
}

void open(Reader& reader, std::span<const std::byte> file, const Header& header) {
  jpeg_decompress_struct& info = reader.info;
  jpeg_create_decompress(&info);
  info.progress = &reader.progress;
  jpeg_mem_src(&info, reinterpret_cast<const unsigned char*>(file.data()), file.size());
  jpeg_read_header(&info, TRUE);
  if (info.image_height != header.stored[0] || info.image_width != header.stored[1]) {
    fail(common(info), "it has two headers that differ");
  }
  const bool is_cmyk = info.jpeg_color_space == JCS_CMYK || info.jpeg_color_space == JCS_YCCK;
  info.out_color_space = is_cmyk ? JCS_CMYK : JCS_RGB;
}

}  // namespace slipstream::jpeg
