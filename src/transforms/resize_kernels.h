#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "transforms/axis_filter.h"
#include "transforms/interpolation.h"

namespace slipstream {

/// The two passes of a resize of interleaved RGB bytes. The vertical pass works for any number of
/// channels. Every implementation computes the same bits.
struct ResizeKernels {
  std::string_view name;
  /// Horizontal pass: resizes `rows` rows of across.in() pixels, `stride` bytes apart, to
  /// contiguous rows of across.out() pixels. Returns the number of rows done: none if the
  /// implementation does not support `across`.
  std::int64_t (*filter_rows)(const AxisFilter& across, const std::uint8_t* in, std::int64_t stride,
                              std::int64_t rows, std::uint8_t* out);
  std::int64_t overread;  ///< number of bytes after each row that filter_rows may read
  /// Vertical pass: computes the first `columns` bytes of output row `y` from rows `stride` bytes
  /// apart; `in` is row 0.
  void (*filter_columns)(const AxisFilter& down, std::int64_t y, const std::uint8_t* in,
                         std::int64_t stride, std::int64_t columns, std::uint8_t* out);
};

/// Returns the implementations that this machine can run, from the slowest, which reads nothing
/// after a row, to the fastest.
std::span<const ResizeKernels> resize_kernels();

namespace plain {
/// The horizontal pass for pixels of C channels: 1, 2 or 4.
template <int C>
void filter_rows_with(const AxisFilter& across, const std::uint8_t* in, std::int64_t stride,
                      std::int64_t rows, std::uint8_t* out);
std::int64_t filter_rows(const AxisFilter& across, const std::uint8_t* in, std::int64_t stride,
                         std::int64_t rows, std::uint8_t* out);
void filter_columns(const AxisFilter& down, std::int64_t y, const std::uint8_t* in,
                    std::int64_t stride, std::int64_t columns, std::uint8_t* out);
}  // namespace plain

namespace sse2 {
// With an odd number of taps, the last pair loads four bytes of the pixel after the row.
inline constexpr std::int64_t kOverread = 4;
/// Computes pixel `x` of one row.
void filter_pixel(const AxisFilter& across, std::int64_t x, const std::uint8_t* in,
                  std::uint8_t* out);
std::int64_t filter_rows(const AxisFilter& across, const std::uint8_t* in, std::int64_t stride,
                         std::int64_t rows, std::uint8_t* out);
void filter_columns(const AxisFilter& down, std::int64_t y, const std::uint8_t* in,
                    std::int64_t stride, std::int64_t columns, std::uint8_t* out);
}  // namespace sse2

namespace avx2 {
// The last pair of taps starts at most at the row's last pixel, and 16 bytes are loaded from there.
inline constexpr std::int64_t kOverread = 13;
std::int64_t filter_rows(const AxisFilter& across, const std::uint8_t* in, std::int64_t stride,
                         std::int64_t rows, std::uint8_t* out);
void filter_columns(const AxisFilter& down, std::int64_t y, const std::uint8_t* in,
                    std::int64_t stride, std::int64_t columns, std::uint8_t* out);
}  // namespace avx2

// REQUIRES: has_avx512()
namespace avx512 {
/// Interpolates `rows` rows of RGB bytes, `stride` bytes apart and `pixels` wide, between the
/// neighbors of each output pixel in `across`, which is not empty. Returns the number of rows done:
/// none if the inputs of adjacent outputs are too far apart for one vector.
std::int64_t between_rows(std::span<const Neighbors> across, std::int64_t pixels,
                          const std::uint8_t* in, std::int64_t stride, std::int64_t rows,
                          float* out);
std::int64_t filter_rows(const AxisFilter& across, const std::uint8_t* in, std::int64_t stride,
                         std::int64_t rows, std::uint8_t* out);
void filter_columns(const AxisFilter& down, std::int64_t y, const std::uint8_t* in,
                    std::int64_t stride, std::int64_t columns, std::uint8_t* out);
}  // namespace avx512

}  // namespace slipstream
