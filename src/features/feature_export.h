#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>

#include "features/feature_store.h"

namespace slipstream {

/// Names of the arrays of an export that tell which sample each row belongs to.
inline constexpr const char* kSampleIndexName = "sample_index";
inline constexpr const char* kSampleVersionName = "sample_version";

enum class FeatureFormat : std::uint8_t { npy, safetensors };

struct FeatureExport {
  FeatureFormat format = FeatureFormat::npy;
  std::filesystem::path out = {};  ///< npy: a folder; safetensors: a file
  unsigned threads = 1;
  std::function<bool()> stop = {};  ///< true: stop
  std::function<void(std::size_t rows, std::size_t all)> progress = {};
};

struct ExportedFeatures {
  std::size_t rows = 0;
  std::size_t damaged = 0;  ///< records that were left out because their checksum does not match
  bool is_complete = true;  ///< false: it was stopped, and nothing was written
};

/// Writes all records of a store to other files, ordered by the index of the sample in its data
/// set, then by version: one array for each field, with the shape of the field after a first
/// dimension for the rows, and the arrays kSampleIndexName and kSampleVersionName, int64. The files
/// replace existing ones when they are complete.
///
/// As .npy: FIELD.npy in the folder `out`, with '_' for characters other than letters, digits, '_',
/// '-' and '.'. NumPy has no bfloat16, so bfloat16 is converted to float32, with equal values;
/// float8 is refused. Throws Refused for such names and types, and Error if a file cannot be
/// written.
ExportedFeatures export_features(FeatureStore& store, const FeatureExport& options);

}  // namespace slipstream
