#include "data/jpeg.h"

#include <algorithm>

#include "data/jpeg_errors.h"
#include "data/jpeg_header.h"

namespace slipstream::jpeg {
namespace {

// More scans than any encoder writes; each costs a pass over the whole image.
constexpr int kMaxScans = 500;
constexpr int kRowsAtOnce = 8;
constexpr const char* kBroken = "broken JPEG";
constexpr const char* kRemedy = "replace or remove the file";

void on_progress(j_common_ptr info) {
  if (reinterpret_cast<j_decompress_ptr>(info)->input_scan_number > kMaxScans) {
    fail(info, "it has too many scans");
  }
}

struct Reader {
  jpeg_decompress_struct info{};
  jpeg_progress_mgr progress{};
  Errors errors;

  Reader() {
    set_up(errors);
    info.err = &errors.manager;
    progress.progress_monitor = on_progress;
  }
  ~Reader() { jpeg_destroy_decompress(&info); }
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;
};

j_common_ptr common(jpeg_decompress_struct& info) { return reinterpret_cast<j_common_ptr>(&info); }

JSAMPARRAY row_memory(jpeg_decompress_struct& info, JDIMENSION bytes) {
  return info.mem->alloc_sarray(common(info), JPOOL_IMAGE, bytes, 1);
}

void read_rgb(jpeg_decompress_struct& info, JSAMPLE* out) {
  const std::size_t row_bytes = std::size_t{3} * info.output_width;
  while (info.output_scanline < info.output_height) {
    JSAMPROW rows[kRowsAtOnce];
    for (int i = 0; i < kRowsAtOnce; ++i) {
      rows[i] = out + (info.output_scanline + static_cast<std::size_t>(i)) * row_bytes;
    }
    const JDIMENSION left = info.output_height - info.output_scanline;
    jpeg_read_scanlines(&info, rows, left < kRowsAtOnce ? left : kRowsAtOnce);
  }
}

JSAMPLE scaled(JSAMPLE level, JSAMPLE by) { return static_cast<JSAMPLE>((level * by + 127) / 255); }

// Adobe's convention, which all writers follow: 255 means no ink.
void to_rgb(JSAMPLE* row, JDIMENSION width) {
  const JSAMPLE* inks = row;
  for (JDIMENSION x = 0; x < width; ++x, inks += 4, row += 3) {
    const JSAMPLE black = inks[3];
    for (int c = 0; c < 3; ++c) row[c] = scaled(inks[c], black);
  }
}

void read_turned(jpeg_decompress_struct& info, const Turn& turn, JSAMPLE* out) {
  const bool is_cmyk = info.out_color_space == JCS_CMYK;
  const JSAMPARRAY row = row_memory(info, info.output_width * (is_cmyk ? 4 : 3));
  const std::ptrdiff_t step = 3 * turn.per_column;
  for (std::ptrdiff_t y = 0; info.output_scanline < info.output_height; ++y) {
    jpeg_read_scanlines(&info, row, 1);
    if (is_cmyk) to_rgb(row[0], info.output_width);
    const JSAMPLE* pixel = row[0];
    JSAMPLE* to = out + 3 * (turn.start + y * turn.per_row);
    for (JDIMENSION x = 0; x < info.output_width; ++x, pixel += 3, to += step) {
      std::copy_n(pixel, 3, to);
    }
  }
}

void open(Reader& reader, std::span<const std::byte> file, const Shape& stored) {
  jpeg_decompress_struct& info = reader.info;
  jpeg_create_decompress(&info);
  info.progress = &reader.progress;
  jpeg_mem_src(&info, reinterpret_cast<const unsigned char*>(file.data()), file.size());
  jpeg_read_header(&info, TRUE);
  if (info.image_height != stored[0] || info.image_width != stored[1]) {
    fail(common(info), "it has two headers that differ");
  }
  const bool is_cmyk = info.jpeg_color_space == JCS_CMYK || info.jpeg_color_space == JCS_YCCK;
  info.out_color_space = is_cmyk ? JCS_CMYK : JCS_RGB;
}

void read_all(Reader& reader, std::span<const std::byte> file, const Header& header,
              const MutableArray& out) {
  jpeg_decompress_struct& info = reader.info;
  open(reader, file, header.stored);
  jpeg_start_decompress(&info);
  if (info.out_color_space == JCS_RGB && header.orientation == kAsStored) {
    read_rgb(info, out.as<JSAMPLE>());
  } else {
    const Turn turn = turn_of(header.orientation, header.stored[0], header.stored[1]);
    read_turned(info, turn, out.as<JSAMPLE>());
  }
  jpeg_finish_decompress(&info);
}

}  // namespace

Shape shape(std::span<const std::byte> file) { return read_header(file).shape(); }

void decode(std::span<const std::byte> file, const MutableArray& out) {
  const Header header = read_header(file);
  require_decodable(header);
  Reader reader;
  guard(reader.errors, kBroken, kRemedy, [&] { read_all(reader, file, header, out); });
}

}  // namespace slipstream::jpeg
