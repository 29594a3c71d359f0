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

/// As the format calls it: "F32", "BF16", "I64".
std::string_view to_string(StoredType type);
/// Bytes of one value.
std::size_t size_bytes(StoredType type);
/// Bytes of all values; nothing where a side is negative or 64 bits do not hold the number.
std::optional<std::uint64_t> tensor_bytes(StoredType type, const std::vector<std::int64_t>& shape);

/// A tensor in a file: contiguous, the last dimension innermost, little-endian.
struct StoredTensor {
  std::string name;
  StoredType type = StoredType::float32;
  std::vector<std::int64_t> shape;  ///< empty: a scalar
  std::uint64_t offset = 0;         ///< of its first byte, behind the file's header
  std::uint64_t bytes = 0;
};

/// What stands ahead of the values of a .safetensors file.
struct StoredTensors {
  std::vector<StoredTensor> tensors;  ///< by offset, without gaps
  std::map<std::string, std::string> metadata;

  const StoredTensor* find(std::string_view name) const;  ///< nullptr: there is none
};

/// The header, a text of JSON, of a file with `value_bytes` bytes behind it. Throws Error for what
/// the format does not allow: names that come twice, types that StoredType has not, shapes that do
/// not fit their bytes, gaps, overlaps and bytes of no tensor. Source: the description of the
/// format at github.com/huggingface/safetensors.
StoredTensors parse_safetensors_header(std::string_view json, std::uint64_t value_bytes);

/// The key of a file's header that holds metadata, and so names no tensor.
inline constexpr const char* kMetadataKey = "__metadata__";

/// An open .safetensors file. It is read, not mapped: a file that is shortened meanwhile is an
/// error, not the end of the process.
class SafetensorsFile {
 public:
  /// Throws Error, naming the path, for what cannot be read and what is not such a file.
  explicit SafetensorsFile(std::filesystem::path path);

  const std::filesystem::path& path() const { return path_; }
  const StoredTensors& header() const { return header_; }
  /// Reads the values of one of header().tensors. Throws Error with the path, the tensor and the
  /// reason. REQUIRES: to.size() == tensor.bytes. Several threads may read at once.
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

/// Makes or replaces the file `path`, as write_file_durably does. The widest types come first, so
/// that all values are aligned, then those of the first name: equal tensors make equal files.
/// Throws Error for what cannot be written. REQUIRES: names in UTF-8 that differ, none of them
/// kMetadataKey, and values that fit their shapes.
void write_safetensors(const std::filesystem::path& path, std::vector<TensorToStore> tensors,
                       const std::map<std::string, std::string>& metadata = {});

}  // namespace slipstream
