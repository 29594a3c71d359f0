#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/file_bytes.h"

namespace slipstream {

/// The types of values that a .safetensors file may hold, as PyTorch calls them.
enum class StoredType : std::uint8_t {
  boolean,
  uint8,
  int8,
  float8_e4m3fn,
  float8_e5m2,
  int16,
  uint16,
  float16,
  bfloat16,
  int32,
  uint32,
  float32,
  int64,
  uint64,
  float64
};

/// Returns the format's name of a type: "F32", "BF16", "I64".
std::string_view to_string(StoredType type);
/// Returns PyTorch's name of a type: "float32", "bfloat16", "int64".
std::string_view torch_name(StoredType type);
/// Returns the type with this name in PyTorch, or no value.
std::optional<StoredType> parse_torch_name(std::string_view name);
/// Returns the number of bytes of one value.
std::size_t size_bytes(StoredType type);
/// Returns the number of bytes of all values; no value if a dimension is negative or the number
/// exceeds 64 bits.
std::optional<std::uint64_t> tensor_bytes(StoredType type, const std::vector<std::int64_t>& shape);

/// A tensor in a file. Its values are contiguous, with the last dimension innermost, and
/// little-endian.
struct StoredTensor {
  std::string name;
  StoredType type = StoredType::float32;
  std::vector<std::int64_t> shape;  ///< empty: a scalar
  /// Offset of the first byte, counted from the end of the file's header.
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
};

/// The header of a .safetensors file.
struct StoredTensors {
  std::vector<StoredTensor> tensors;  ///< by offset, without gaps
  std::map<std::string, std::string> metadata;

  const StoredTensor* find(std::string_view name) const;  ///< returns nullptr if there is none
};

/// Parses the header, a JSON text, of a file with `value_bytes` bytes after the header. Throws
/// Error for content that the format does not allow: duplicate names, types that are not in
/// StoredType, shapes that do not match their bytes, gaps, overlaps, and bytes that belong to no
/// tensor. Source: the description of the format at github.com/huggingface/safetensors.
StoredTensors parse_safetensors_header(std::string_view json, std::uint64_t value_bytes);

/// The key of a file's header that holds metadata and therefore cannot be the name of a tensor.
inline constexpr const char* kMetadataKey = "__metadata__";

/// An open .safetensors file. It is read, not mapped: if another process truncates a mapped file,
/// reading it kills this process with SIGBUS, whereas a read returns an error.
class SafetensorsFile {
 public:
  /// Throws Error, with the path, if the file cannot be read or is not a .safetensors file.
  explicit SafetensorsFile(std::filesystem::path path);

  const std::filesystem::path& path() const { return path_; }
  const StoredTensors& header() const { return header_; }
  /// Reads the values of one of header().tensors. Throws Error with the path, the tensor and the
  /// reason. May be called from several threads. REQUIRES: to.size() == tensor.bytes
  void read(const StoredTensor& tensor, std::span<std::byte> to) const;

 private:
  std::filesystem::path path_;
  ReadableFile file_;
  std::uint64_t values_at_ = 0;
  StoredTensors header_;
};

/// A tensor to be written. Its values are contiguous and little-endian.
struct TensorToStore {
  std::string name;
  StoredType type = StoredType::float32;
  std::vector<std::int64_t> shape;
  std::span<const std::byte> values;
};

/// Returns the bytes of a file before its values: the header and its length. Sets the `offset` and
/// `bytes` of each tensor, and orders the tensors by the size of their type, largest first, so that
/// all values are aligned, and then by name, so that equal tensors give equal files. REQUIRES:
/// names are distinct, in UTF-8, and not kMetadataKey; all tensors together have less than 2^64
/// bytes
std::string lay_out_safetensors(std::vector<StoredTensor>& tensors,
                                const std::map<std::string, std::string>& metadata = {});

/// Creates or replaces the file `path`, as write_file_durably() does, with the tensors in the order
/// of lay_out_safetensors(). Throws Error if the file cannot be written. REQUIRES: names are
/// distinct, in UTF-8, and not kMetadataKey; values match their shapes
void write_safetensors(const std::filesystem::path& path, const std::vector<TensorToStore>& tensors,
                       const std::map<std::string, std::string>& metadata = {});

}  // namespace slipstream
