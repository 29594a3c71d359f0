#include "codecs/jpeg.h"

#include <algorithm>

#include "codecs/jpeg_reader.h"

namespace slipstream::jpeg {
namespace {

JSAMPLE scaled(JSAMPLE level, JSAMPLE by) { return static_cast<JSAMPLE>((level * by + 127) / 255); }

// Adobe's convention, which all writers follow: 255 means no ink. The conversion is in place,
// because three bytes never overtake the four bytes that are read.
void to_rgb(JSAMPLE* row, JDIMENSION width) {
  const JSAMPLE* inks = row;
  for (JDIMENSION x = 0; x < width; ++x, inks += 4, row += 3) {
    const JSAMPLE black = inks[3];
    for (int c = 0; c < 3; ++c) row[c] = scaled(inks[c], black);
  }
}

// Writes each row directly to its rotated position, which needs memory for one row instead of a
// second image.
void read_turned(jpeg_decompress_struct& info, const Turn& turn, JSAMPLE* out) {
  const bool is_cmyk = info.out_color_space == JCS_CMYK;
  const JSAMPARRAY row = row_memory(info, info.output_width * (is_cmyk ? 4 : 3), 1);
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

void read_all(Reader& reader, std::span<const std::byte> file, const Header& header,
              const MutableArray& out) {
  jpeg_decompress_struct& info = reader.info;
  open(reader, file, header);
  jpeg_start_decompress(&info);
  if (info.out_color_space == JCS_RGB && header.orientation == kAsStored) {
    read_rows(info, info.output_height, out.as<JSAMPLE>());
  } else {
    const Turn turn = make_turn(header.orientation, header.stored[0], header.stored[1]);
    read_turned(info, turn, out.as<JSAMPLE>());
  }
  finish(info);
}

/// Reads all entropy-coded data of a sequential scan, as for the whole image, but computes only the
/// pixels of the last row of blocks. At 1/8 of the size these are only the blocks' mean values.
void read_codes(Reader& reader, std::span<const std::byte> file, const Header& header) {
  jpeg_decompress_struct& info = reader.info;
  open(reader, file, header);
  info.scale_num = 1;
  info.scale_denom = 8;
  jpeg_start_decompress(&info);
  const auto components = static_cast<JDIMENSION>(info.output_components);
  const JSAMPARRAY row = row_memory(info, info.output_width * components, 1);
  if (info.output_height > 1) jpeg_skip_scanlines(&info, info.output_height - 1);
  while (info.output_scanline < info.output_height) jpeg_read_scanlines(&info, row, 1);
  finish(info);
}

}  // namespace

Shape shape(std::span<const std::byte> file) { return read_header(file).shape(); }

void decode(std::span<const std::byte> file, const DecodeOptions& options,
            const MutableArray& out) {
  const Header header = read_header(file);
  require_decodable(header);
  Reader reader(options.strict);
  guard(reader.errors, kBroken, kRemedy, [&] { read_all(reader, file, header, out); });
  report_warning(reader.errors, options.warning);
}

bool is_sound(std::span<const std::byte> file) {
  try {
    const Header header = read_header(file);
    require_decodable(header);
    Reader reader(true);
    guard(reader.errors, kBroken, kRemedy, [&] { read_codes(reader, file, header); });
  } catch (const Error&) {
    return false;
  }
  return true;
}

}  // namespace slipstream::jpeg
