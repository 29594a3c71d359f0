#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "slipstream/core/array.h"

namespace slipstream {

/// What a .npy file says about its array.
struct NpyHeader {
  std::string type;  ///< "<i4"; "" for one of several parts
  bool is_fortran = false;
  std::vector<std::int64_t> shape;
  std::size_t data_at = 0;  ///< where the values begin
};

/// Enough of a file for every header that is taken.
inline constexpr std::size_t kMaxNpyHeader = 1 << 16;

/// Parses the header at the beginning of `file`. Throws Error for what is no .npy or damaged.
NpyHeader parse_npy_header(std::span<const std::byte> file);

/// The array as ours. Throws Error saying how to save it anew: of a type, byte order, order or
/// number of dimensions that is not taken, and of more than 2^62 bytes.
struct NpyForm {
  DType dtype = DType::uint8;
  Shape shape;
};
NpyForm npy_form(const NpyHeader& header);

/// What stands ahead of the values of such an array, as numpy.save writes it: version 1, a multiple
/// of 64 bytes.
std::string npy_header(const NpyForm& form);

}  // namespace slipstream
