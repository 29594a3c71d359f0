#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "transforms/axis_filter.h"
#include "transforms/interpolation.h"

namespace slipstream {

/// The two passes of a resize of interleaved RGB bytes; the second takes any. Every form computes
/// the same bits.
struct ResizeKernels {
  std::string_view name;
  /// `rows` rows of across.in() pixels, `stride` bytes apart, to rows of across.out() pixels, one
  /// behind the other. Returns how many it has done: none where it is not made for `across`.
  std::int64_t (*filter_rows)(const AxisFilter& across, const std::uint8_t* in, std::int64_t stride,
                              std::int64_t rows, std::uint8_t* out);
  std::int64_t overread;  ///< bytes past each row that filter_rows may read
  /// The first `columns` bytes of output row `y`, from rows `stride` bytes apart; `in` is row 0.
  void (*filter_columns)(const AxisFilter& down, std::int64_t y, const std::uint8_t* in,
                         std::int64_t stride, std::int64_t columns, std::uint8_t* out);
};

/// The forms that this machine can run, the slowest, which reads past no row, first.
std::span<const ResizeKernels> resize_kernels();

namespace plain {
/// Of pixels of C channels: 1, 2 or 4.
template <int C>
void filter_rows_with(const AxisFilter& across, const std::uint8_t* in, std::int64_t stride,
                      std::int64_t rows, std::uint8_t* out);
std::int64_t filter_rows(const AxisFilter& across, const std::uint8_t* in, std::int64_t stride,
                         std::int64_t rows, std::uint8_t* out);
void filter_columns(const AxisFilter& down, std::int64_t y, const std::uint8_t* in,
                    std::int64_t stride, std::int64_t columns, std::uint8_t* out);
}  // namespace plain

namespace sse2 {
inline constexpr std::int64_t kOverread = 4;
/// Pixel `x` of one row.
void filter_pixel(const AxisFilter& across, std::int64_t x, const std::uint8_t* in,
                  std::uint8_t* out);
std::int64_t filter_rows(const AxisFilter& across, const std::uint8_t* in, std::int64_t stride,
                         std::int64_t rows, std::uint8_t* out);
void filter_columns(const AxisFilter& down, std::int64_t y, const std::uint8_t* in,
                    std::int64_t stride, std::int64_t columns, std::uint8_t* out);
}  // namespace sse2

namespace avx2 {
inline constexpr std::int64_t kOverread = 13;
std::int64_t filter_rows(const AxisFilter& across, const std::uint8_t* in, std::int64_t stride,
                         std::int64_t rows, std::uint8_t* out);
void filter_columns(const AxisFilter& down, std::int64_t y, const std::uint8_t* in,
                    std::int64_t stride, std::int64_t columns, std::uint8_t* out);
}  // namespace avx2

// REQUIRES: has_avx512()
namespace avx512 {
/// `rows` rows of RGB bytes, `stride` bytes apart and `pixels` wide, to what lies between the
/// neighbors of each pixel of `across`, of which there are some. Returns how many rows it has
/// done: none where neighbors of neighbors lie too far apart.
std::int64_t between_rows(std::span<const Neighbors> across, std::int64_t pixels,
                          const std::uint8_t* in, std::int64_t stride, std::int64_t rows,
                          float* out);
std::int64_t filter_rows(const AxisFilter& across, const std::uint8_t* in, std::int64_t stride,
                         std::int64_t rows, std::uint8_t* out);
void filter_columns(const AxisFilter& down, std::int64_t y, const std::uint8_t* in,
                    std::int64_t stride, std::int64_t columns, std::uint8_t* out);
}  // namespace avx512

}  // namespace slipstream
