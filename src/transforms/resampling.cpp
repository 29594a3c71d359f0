#include "transforms/resampling.h"

#include <algorithm>
#include <cstring>

#include "transforms/geometry.h"
#include "transforms/interpolation.h"
#include "transforms/resize_kernels.h"

namespace slipstream {
namespace {

/// Rows of bytes, `stride` apart. `readable` is the number of bytes from `first` to the end of the
/// array.
struct Rows {
  const std::uint8_t* first;
  std::int64_t stride;
  std::int64_t readable;
};

// The fastest implementation first. Each takes the rows that it can read without passing the end of
// the array; slower ones process the rest, and rows of filters that it does not support.
void filter_rgb(const AxisFilter& across, const Rows& in, std::int64_t rows, std::uint8_t* out) {
  std::int64_t done = 0;
  const auto forms = resize_kernels();
  for (auto form = forms.rbegin(); form != forms.rend(); ++form) {
    const std::int64_t at = done * in.stride;
    const std::int64_t spare = in.readable - at - 3 * across.in() - form->overread;
    const std::int64_t n = spare < 0 ? 0 : std::min(rows - done, spare / in.stride + 1);
    done += form->filter_rows(across, in.first + at, in.stride, n, out + done * 3 * across.out());
  }
}

void filter_across(const AxisFilter& across, std::int64_t channels, const Rows& in,
                   std::int64_t rows, std::uint8_t* out) {
  switch (channels) {
    case 1:
      return plain::filter_rows_with<1>(across, in.first, in.stride, rows, out);
    case 2:
      return plain::filter_rows_with<2>(across, in.first, in.stride, rows, out);
    case 3:
      return filter_rgb(across, in, rows, out);
    default:
      plain::filter_rows_with<4>(across, in.first, in.stride, rows, out);
  }
}

void filter_down(const AxisFilter& down, const std::uint8_t* in, std::int64_t stride,
                 const MutableArray& out) {
  const auto filter_columns = resize_kernels().back().filter_columns;
  const std::int64_t columns = out.shape[2] * out.shape[1];
  for (std::int64_t y = 0; y < down.out(); ++y) {
    filter_columns(down, y, in, stride, columns, out.as<std::uint8_t>() + y * columns);
  }
}

/// Converts `length` pixels starting at `from` to pixels of an image that was downscaled by
/// `reduction`.
AxisInterval reduced(std::int64_t from, std::int64_t length, std::int64_t reduction) {
  const std::int64_t first = from / reduction;
  const std::int64_t end = (from + length + reduction - 1) / reduction;
  const auto parts = static_cast<double>(reduction);
  return {end - first, static_cast<double>(from % reduction) / parts,
          static_cast<double>(length) / parts};
}

void resample_levels(FilterKind filter, const ConstArray& in, const DrawnCrop& crop,
                     const MutableArray& out, Scratch& scratch) {
  const Region& region = crop.region;
  AxisFilter down(filter, reduced(region.top, region.height, crop.reduction), out.shape[0]);
  AxisFilter across(filter, reduced(region.left, region.width, crop.reduction), out.shape[1]);
  const std::int64_t top = region.top / crop.reduction;
  const std::int64_t left = region.left / crop.reduction;
  const std::int64_t height = down.in();
  if (down.keeps_size() && across.keeps_size()) {
    return copy_region(in, {top, left, height, across.in()}, out);
  }

  const std::int64_t channels = in.shape[2];
  const std::int64_t start = channels * (top * in.shape[1] + left);
  const Rows rows = {in.as<std::uint8_t>() + start, channels * in.shape[1],
                     static_cast<std::int64_t>(in.bytes()) - start};
  const std::int64_t between = across.keeps_size() ? 0 : height * out.shape[1] * channels;
  std::byte* memory = scratch.reset(DType::uint8, {down.bytes() + across.bytes() + between}).data;
  if (!across.keeps_size()) across.place(memory);
  // An axis that keeps its size is skipped: filtering it would only copy.
  if (down.keeps_size()) {
    return filter_across(across, channels, rows, height, out.as<std::uint8_t>());
  }

  down.place(memory + across.bytes());
  if (across.keeps_size()) return filter_down(down, rows.first, rows.stride, out);

  auto* narrowed = reinterpret_cast<std::uint8_t*>(memory + across.bytes() + down.bytes());
  filter_across(across, channels, rows, height, narrowed);
  filter_down(down, narrowed, channels * out.shape[1], out);
}

// Copies pixels of a row. N is the number of bytes of a pixel if the compiler knows it, else 0.
template <std::size_t N>
void gather(const std::int64_t* from, std::int64_t count, const std::byte* in, std::byte* out,
            std::size_t bytes) {
  if constexpr (N > 0) bytes = N;
  for (std::int64_t i = 0; i < count; ++i, out += bytes) {
    std::memcpy(out, in + static_cast<std::size_t>(from[i]) * bytes, bytes);
  }
}

void resample_nearest(Interpolation interpolation, const ConstArray& in, const Region& region,
                      const MutableArray& out, Scratch& scratch) {
  const std::int64_t width = out.shape[1];
  const auto input = [&](std::int64_t i, std::int64_t from, std::int64_t to) -> std::int64_t {
    return nearest_input(interpolation, static_cast<std::int32_t>(i),
                         static_cast<std::int32_t>(from), static_cast<std::int32_t>(to));
  };
  auto* from = scratch.reset(DType::int64, {width}).as<std::int64_t>();
  for (std::int64_t x = 0; x < width; ++x) from[x] = region.left + input(x, region.width, width);
  const std::size_t bytes = pixel_bytes(in);
  const auto gather_row = for_pixel_bytes(bytes, []<std::size_t N> { return gather<N>; });
  for (std::int64_t y = 0; y < out.shape[0]; ++y) {
    const std::int64_t row = region.top + input(y, region.height, out.shape[0]);
    gather_row(from, width, in.data + static_cast<std::size_t>(row * in.shape[1]) * bytes,
               out.data + static_cast<std::size_t>(y * width) * bytes, bytes);
  }
}

}  // namespace

void resample(FieldKind kind, const Resampling& how, const ConstArray& in, const DrawnCrop& crop,
              const MutableArray& out, Scratch& scratch) {
  const Region& region = crop.region;
  const bool is_nearest = how.interpolation == Interpolation::nearest ||
                          how.interpolation == Interpolation::nearest_exact;
  const bool keeps_size = region.height == out.shape[0] && region.width == out.shape[1];
  const bool is_copied = kind != FieldKind::image || is_nearest;
  if (keeps_size && crop.reduction == 1 && (is_copied || in.dtype == DType::uint8)) {
    return copy_region(in, region, out);
  }
  if (is_copied) {
    const auto way = is_nearest ? how.interpolation : mask_interpolation(how.interpolation);
    return resample_nearest(way, in, region, out, scratch);
  }
  if (in.dtype == DType::float32 || !filters_levels(how.interpolation, how.antialias)) {
    return resample_floats(how, in, region, out, scratch);
  }
  resample_levels(filter_kind(how.interpolation, how.antialias), in, crop, out, scratch);
}

}  // namespace slipstream
