#include <algorithm>
#include <cstring>

#include "data/jpeg.h"
#include "data/jpeg_reader.h"

namespace slipstream::jpeg {
namespace {

constexpr JDIMENSION kRowsAtOnce = 8;

// A file cut short must fail whether or not its rest is needed. The frame's thumbnail, if any, with
// an end of its own, lies ahead of the frame.
bool has_end(std::span<const std::byte> file, const Header& header) {
  for (std::size_t at = file.size(); at >= header.end + 2; --at) {
    if (file[at - 1] == std::byte{0xd9} && file[at - 2] == std::byte{0xff}) return true;
  }
  return false;
}

// The kinds whose parts were compared with the whole, by tests.
bool is_usual(const jpeg_decompress_struct& info) {
  if (info.out_color_space != JCS_RGB) return false;
  for (int i = 0; i < info.num_components; ++i) {
    const int most = i == 0 && info.num_components > 1 ? 2 : 1;
    const jpeg_component_info& component = info.comp_info[i];
    if (component.h_samp_factor > most || component.v_samp_factor > most) return false;
  }
  return true;
}

struct Columns {
  JDIMENSION from;
  JDIMENSION width;
};

// Upsampling looks at a pixel's neighbours, so one more is asked for on each side. Of fewer than
// two columns of colour the codec would make another upsampler than for the whole image.
Columns columns_for(JDIMENSION left, JDIMENSION right, JDIMENSION image_width) {
  constexpr JDIMENSION kLeast = 16;
  const JDIMENSION from = left > 0 ? left - 1 : 0;
  const JDIMENSION end = std::min(std::max(right + 1, from + kLeast), image_width);
  const JDIMENSION first = std::min(from, end > kLeast ? end - kLeast : 0);
  return {first, end - first};
}

void read_part(jpeg_decompress_struct& info, const Region& region, JSAMPLE* out) {
  const auto top = static_cast<JDIMENSION>(region.top);
  const auto left = static_cast<JDIMENSION>(region.left);
  const auto right = static_cast<JDIMENSION>(region.left + region.width);
  const auto bottom = static_cast<JDIMENSION>(region.top + region.height);
  auto [from, width] = columns_for(left, right, info.output_width);
  jpeg_crop_scanline(&info, &from, &width);
  if (top > 1) jpeg_skip_scanlines(&info, top - 1);
  const JSAMPARRAY rows = row_memory(info, 3 * info.output_width, kRowsAtOnce);
  if (top > 0) jpeg_read_scanlines(&info, rows, 1);
  const std::size_t row_bytes = std::size_t{3} * (right - left);
  while (info.output_scanline < bottom) {
    const JDIMENSION wanted = std::min(bottom - info.output_scanline, kRowsAtOnce);
    const JDIMENSION got = jpeg_read_scanlines(&info, rows, wanted);
    for (JDIMENSION i = 0; i < got; ++i, out += row_bytes) {
      std::memcpy(out, rows[i] + std::size_t{3} * (left - from), row_bytes);
    }
  }
}

}  // namespace

bool decode_region(std::span<const std::byte> file, const Region& region, const MutableArray& out) {
  const Header header = read_header(file);
  require_decodable(header);
  if (header.orientation != kAsStored || !has_end(file, header)) return false;
  bool is_read = false;
  Reader reader;
  guard(reader.errors, kBroken, kRemedy, [&] {
    open(reader, file, header);
    if (!is_usual(reader.info)) return;
    jpeg_start_decompress(&reader.info);
    read_part(reader.info, region, out.as<JSAMPLE>());
    is_read = true;
  });
  return is_read;
}

}  // namespace slipstream::jpeg
