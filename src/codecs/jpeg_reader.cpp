#include "codecs/jpeg_reader.h"

#include <algorithm>
#include <array>
#include <cstdio>

#include <jerror.h>  // after jpeglib.h, which declares what its macros use

namespace slipstream::jpeg {
namespace {

constexpr int kLeastMaxScans = 20;
constexpr std::array<JOCTET, 2> kEndMarker = {0xff, JPEG_EOI};

void do_nothing(j_decompress_ptr) {}

// libjpeg's own memory source inserts an end marker here instead, and missing rows then become
// gray.
[[noreturn]] boolean fail_at_end_of_file(j_decompress_ptr info) {
  fail(reinterpret_cast<j_common_ptr>(info), "the file is truncated");
}

// Used once all rows are read: only the end marker can be missing then.
boolean end_image(j_decompress_ptr info) {
  WARNMS(info, JWRN_JPEG_EOF);
  info->src->next_input_byte = kEndMarker.data();
  info->src->bytes_in_buffer = kEndMarker.size();
  return TRUE;
}

void skip_bytes(j_decompress_ptr info, long count) {
  if (count <= 0) return;
  // If the file ends inside the skipped part, the buffer is empty now, and fail_at_end_of_file()
  // reports it.
  const std::size_t skipped = std::min(static_cast<std::size_t>(count), info->src->bytes_in_buffer);
  info->src->next_input_byte += skipped;
  info->src->bytes_in_buffer -= skipped;
}

void set_source(Reader& reader, std::span<const std::byte> file) {
  jpeg_source_mgr& source = reader.source;
  source.next_input_byte = reinterpret_cast<const JOCTET*>(file.data());
  source.bytes_in_buffer = file.size();
  source.init_source = do_nothing;
  source.fill_input_buffer = fail_at_end_of_file;
  source.skip_input_data = skip_bytes;
  source.resync_to_restart = jpeg_resync_to_restart;
  source.term_source = do_nothing;
  reader.info.src = &source;
}

void on_progress(j_common_ptr common_info) {
  const auto* info = reinterpret_cast<j_decompress_ptr>(common_info);
  if (info->input_scan_number <= kLeastMaxScans) return;
  const int most = max_scans(std::int64_t{info->image_height} * info->image_width);
  if (info->input_scan_number <= most) return;
  char message[JMSG_LENGTH_MAX];
  std::snprintf(message, sizeof(message), "it has more than %d scans, too many for its size", most);
  fail(common_info, message);
}

}  // namespace

int max_scans(std::int64_t pixels) {
  constexpr std::int64_t kMaxPixelsOfAllScans = std::int64_t{1} << 31;
  return static_cast<int>(
      std::clamp<std::int64_t>(kMaxPixelsOfAllScans / pixels, kLeastMaxScans, 100));
}

Reader::Reader(bool refuses_warnings) {
  set_up(errors, refuses_warnings);
  info.err = &errors.manager;
  progress.progress_monitor = on_progress;
}

j_common_ptr common(jpeg_decompress_struct& info) { return reinterpret_cast<j_common_ptr>(&info); }

JSAMPARRAY row_memory(jpeg_decompress_struct& info, JDIMENSION bytes, JDIMENSION rows) {
  return info.mem->alloc_sarray(common(info), JPOOL_IMAGE, bytes, rows);
}

void read_rows(jpeg_decompress_struct& info, JDIMENSION end, JSAMPLE* out) {
  const auto components = static_cast<std::size_t>(info.output_components);
  while (info.output_scanline < end) {
    JSAMPROW row = out;
    out += components * info.output_width * jpeg_read_scanlines(&info, &row, 1);
  }
}

void finish(jpeg_decompress_struct& info) {
  info.src->fill_input_buffer = end_image;
  jpeg_finish_decompress(&info);
}

void open(Reader& reader, std::span<const std::byte> file, const Header& header) {
  jpeg_decompress_struct& info = reader.info;
  jpeg_create_decompress(&info);
  info.progress = &reader.progress;
  set_source(reader, file);
  jpeg_read_header(&info, TRUE);
  if (info.image_height != header.stored[0] || info.image_width != header.stored[1]) {
    // read_header() parsed this file before, and the output was allocated for its result. libjpeg
    // found another size, so the output would not fit.
    fail(common(info), "it has two different headers");
  }
  const bool is_cmyk = info.jpeg_color_space == JCS_CMYK || info.jpeg_color_space == JCS_YCCK;
  info.out_color_space = is_cmyk ? JCS_CMYK : JCS_RGB;
}

}  // namespace slipstream::jpeg
