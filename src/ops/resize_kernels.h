#pragma once

#include <cstddef>
#include <cstdint>

#include "ops/axis_filter.h"

namespace slipstream {

/// The two passes of a resize of interleaved RGB bytes. Both namespaces compute the same bits.
namespace plain {

/// One row of `across.in()` pixels to one of `across.out()`.
void filter_row(const AxisFilter& across, const std::uint8_t* in, std::uint8_t* out);
/// The first `columns` bytes of output row `y`, from rows `stride` bytes apart; `in` is row 0.
void filter_columns(const AxisFilter& down, std::int64_t y, const std::uint8_t* in,
                    std::int64_t stride, std::int64_t columns, std::uint8_t* out);

}  // namespace plain

#if defined(__SSE2__)
namespace sse2 {

inline constexpr std::int64_t kOverread = 4;

/// Reads up to kOverread bytes past the row.
void filter_row(const AxisFilter& across, const std::uint8_t* in, std::uint8_t* out);
void filter_columns(const AxisFilter& down, std::int64_t y, const std::uint8_t* in,
                    std::int64_t stride, std::int64_t columns, std::uint8_t* out);

}  // namespace sse2
namespace fast = sse2;
#else
namespace fast {
inline constexpr std::int64_t kOverread = 0;
using plain::filter_columns;
using plain::filter_row;
}  // namespace fast
#endif

}  // namespace slipstream
