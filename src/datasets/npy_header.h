#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "slipstream/core/array.h"

namespace slipstream {

/// The content of a .npy file's header.
struct NpyHeader {
  std::string type;  ///< such as "<i4"; "" for a structured type
  bool is_fortran = false;
  std::vector<std::int64_t> shape;
  std::size_t data_at = 0;  ///< offset of the values
};

/// Maximum size of a header: reading this much of a file is enough.
inline constexpr std::size_t kMaxNpyHeader = 1 << 16;

/// Parses the header at the beginning of `file`. Throws Error if it is damaged or not a .npy file.
NpyHeader parse_npy_header(std::span<const std::byte> file);

/// Dtype and shape of an array.
struct NpyForm {
  DType dtype = DType::uint8;
  Shape shape;
};
/// Converts a header. Throws Error with a remedy for a type, byte order, memory order or number of
/// dimensions that is not supported, and for more than 2^62 bytes.
NpyForm npy_form(const NpyHeader& header);

/// Returns the header of such an array as numpy.save writes it: version 1, with a size that is a
/// multiple of 64 bytes.
std::string npy_header(const NpyForm& form);
/// Returns the header for any type, named as in NumPy, such as "<f2", and any number of dimensions.
std::string npy_header(std::string_view type, std::span<const std::int64_t> shape);

}  // namespace slipstream
