#include <algorithm>

#include "codecs/jpeg.h"
#include "codecs/jpeg_reader.h"

namespace slipstream::jpeg {
namespace {

// The kinds of files for which tests compare partial with complete decoding.
bool is_usual(const jpeg_decompress_struct& info) {
  if (info.out_color_space != JCS_RGB) return false;
  for (int i = 0; i < info.num_components; ++i) {
    const int most = i == 0 && info.num_components > 1 ? 2 : 1;
    const jpeg_component_info& component = info.comp_info[i];
    if (component.h_samp_factor > most || component.v_samp_factor > most) return false;
  }
  return true;
}

// libjpeg-turbo also supports sizes such as 1/3 or 3/4, but they take longer than decoding all
// pixels.
JDIMENSION usual_reduction(std::int64_t at_most) {
  JDIMENSION reduction = 8;
  while (reduction > 1 && reduction > at_most) reduction /= 2;
  return reduction;
}

/// Half-open range of pixel columns or rows of the reduced image.
struct ColumnRange {
  JDIMENSION from;
  JDIMENSION end;
};

ColumnRange reduced(std::int64_t from, std::int64_t length, JDIMENSION reduction) {
  return {static_cast<JDIMENSION>(from) / reduction,
          static_cast<JDIMENSION>(from + length + reduction - 1) / reduction};
}

// Chroma upsampling reads a pixel's neighbors, so one more column is requested on each side. For
// fewer than two columns of chroma the codec would choose another upsampler than for the whole
// image, which gives other pixels.
ColumnRange columns_for(const ColumnRange& wanted, JDIMENSION image_width) {
  constexpr JDIMENSION kLeast = 16;
  const JDIMENSION from = wanted.from > 0 ? wanted.from - 1 : 0;
  const JDIMENSION end = std::min(std::max(wanted.end + 1, from + kLeast), image_width);
  return {std::min(from, end > kLeast ? end - kLeast : 0), end};
}

/// Returns true if every coefficient is complete. In progressive files that lack scans the codec
/// smooths blocks with their neighbors, which are missing at the edges of a part.
bool is_complete(const jpeg_decompress_struct& info) {
  if (!info.progressive_mode) return true;
  const auto is_known = [](int bits) { return bits == 0; };
  return std::all_of(info.coef_bits[0], info.coef_bits[info.num_components], is_known);
}

/// Returns true if decoding the part fails only for files for which decoding the whole fails. A
/// file with several scans is read to its end in both cases.
bool fails_as_whole(jpeg_decompress_struct& info) {
  if (jpeg_has_multiple_scans(&info)) return true;
  const auto* const data = reinterpret_cast<const std::byte*>(info.src->next_input_byte);
  return runs_to_its_end({data, info.src->bytes_in_buffer}, info.restart_interval > 0);
}

std::optional<Window> read_window(jpeg_decompress_struct& info, const Window& wanted,
                                  HostArray& out) {
  const Region& region = wanted.region;
  const JDIMENSION reduction = usual_reduction(wanted.reduction);
  info.scale_num = 1;
  info.scale_denom = reduction;
  jpeg_start_decompress(&info);
  if (!is_complete(info)) return std::nullopt;
  const ColumnRange rows = reduced(region.top, region.height, reduction);
  const ColumnRange columns =
      columns_for(reduced(region.left, region.width, reduction), info.output_width);
  JDIMENSION left = columns.from;
  JDIMENSION width = columns.end - columns.from;
  // The codec moves `left` and `width` to block boundaries: more pixels than requested may be
  // returned.
  jpeg_crop_scanline(&info, &left, &width);
  // One more row above, because chroma upsampling reads it.
  const JDIMENSION top = rows.from > 0 ? rows.from - 1 : 0;
  if (top > 0) jpeg_skip_scanlines(&info, top);
  const MutableArray pixels = out.reset(DType::uint8, {rows.end - top, width, 3});
  read_rows(info, rows.end, pixels.as<JSAMPLE>());
  if (info.output_scanline == info.output_height) finish(info);
  const auto part = [&](std::int64_t from, std::int64_t end, std::int64_t side) {
    return std::min(end * reduction, side) - from * reduction;
  };
  return Window{
      {std::int64_t{top} * reduction, std::int64_t{left} * reduction,
       part(top, rows.end, info.image_height), part(left, left + width, info.image_width)},
      reduction};
}

}  // namespace

std::optional<Window> decode_window(std::span<const std::byte> file, const Window& wanted,
                                    std::string* warning, HostArray& out) {
  const Header header = read_header(file);
  require_decodable(header);
  if (header.orientation != kAsStored) return std::nullopt;
  std::optional<Window> window;
  Reader reader(false);
  guard(reader.errors, kBroken, kRemedy, [&] {
    open(reader, file, header);
    if (is_usual(reader.info) && fails_as_whole(reader.info)) {
      window = read_window(reader.info, wanted, out);
    }
  });
  if (window) report_warning(reader.errors, warning);
  return window;
}

}  // namespace slipstream::jpeg
