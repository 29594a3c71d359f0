#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "core/safetensors.h"

namespace slipstream {

/// A part of each record: one array of fixed type and shape, contiguous in row-major order.
struct FeatureField {
  std::string name;
  StoredType type = StoredType::float32;
  std::vector<std::int64_t> shape;  ///< of one sample, without the batch dimension
  std::uint64_t bytes = 0;          ///< size of the values of one sample
  bool operator==(const FeatureField&) const = default;
};

/// Parses a JSON list of fields, [{"name": "0", "dtype": "bfloat16", "shape": [197, 768]}, ...],
/// with PyTorch's names of types. Throws Refused with all problems: an unknown type, a name that is
/// empty or occurs twice, a negative dimension, no values at all, more than 1 TiB.
std::vector<FeatureField> parse_feature_fields(std::string_view json);

/// Returns the fields as JSON that parse_feature_fields() parses.
std::string fields_json(const std::vector<FeatureField>& fields);
/// Returns the fields as text: "x: float32 [4, 5], label: int64 []".
std::string fields_text(const std::vector<FeatureField>& fields);

/// Describes the records of one key. It is stored as manifest.json next to the records.
struct FeatureManifest {
  std::string key;  ///< JSON: everything that the features depend on
  std::vector<FeatureField> fields;
  std::string library;  ///< version of the library that created the folder
  std::string created;  ///< date and time, in UTC

  /// Returns the size of a record: the values of all fields, one after the other, without gaps.
  std::uint64_t record_bytes() const;
  /// Returns a digest of the key, the fields and the format of the files.
  std::uint64_t seed() const;
  /// Returns the name of the folder for this key: 16 hexadecimal digits.
  std::string folder_name() const;
  std::string to_json() const;
};

/// Creates a manifest with the present time and the version of this library. Throws Refused if
/// `key` is not JSON, and as parse_feature_fields() does.
FeatureManifest make_feature_manifest(const std::string& key, std::string_view fields);

/// Parses the content of manifest.json. Throws Refused with all problems, such as a format version
/// that is not that of this library.
FeatureManifest parse_feature_manifest(std::string_view json);

inline constexpr const char* kFeatureManifest = "manifest.json";

/// Reads and parses the file `manifest.json` in a folder. Throws Refused, with the path and a
/// remedy, if that is not possible.
FeatureManifest read_feature_manifest(const std::filesystem::path& folder);

}  // namespace slipstream
