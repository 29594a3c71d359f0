#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "slipstream/core/array.h"
#include "slipstream/datasets/dataset.h"

namespace slipstream {

/// DIR/manifest.json of a folder of .npy files, DIR/NAME.npy for each field, which convert_to_npy()
/// writes block by block:
///   {"version": 1, "settings": {"form": "npy", "samples": 9, "samples_per_block": 4, "fields":
///    [{"name": "image", "kind": "image", "dtype": "uint8", "shape": [8, 8, 3], "classes": 0},
///    ...],
///    ...}, "blocks": [["0123456789abcdef", ...], null, ...]}
/// If bad samples were skipped, it also has "skipped": [{"sample": 3, "message": "..."}, ...].
struct NpyManifest {
  std::string settings;  ///< JSON; includes samples, samples_per_block and fields
  std::size_t samples = 0;
  std::size_t samples_per_block = 1;
  std::vector<FieldSpec> fields;  ///< with fixed shapes
  /// Digests of each field's samples in a block; empty for a block that is not written yet.
  std::vector<std::vector<std::uint64_t>> blocks;
  std::vector<SkippedSample> skipped = {};  ///< indices in the source; not counted in `samples`

  std::size_t written() const;
  bool is_complete() const { return written() == blocks.size(); }
  std::size_t block_begin(std::size_t block) const { return block * samples_per_block; }
  std::size_t block_end(std::size_t block) const;
};

std::filesystem::path manifest_path(const std::filesystem::path& dir);
std::filesystem::path npy_path(const std::filesystem::path& dir, const std::string& field);

/// Returns true if a field's name can be a file name: ASCII letters, digits, '_', '-' and '.', but
/// not '.' first.
bool is_npy_name(const std::string& field);

/// Reads the manifest of any kind of conversion. Returns no value if there is none, and a discarded
/// value if it is not JSON.
std::optional<nlohmann::ordered_json> find_manifest(const std::filesystem::path& dir);

/// Version of the manifests of all kinds of conversions.
inline constexpr int kManifestVersion = 1;
/// Throws Error with the file for a manifest with another or no version.
void require_manifest_version(const std::filesystem::path& path,
                              const nlohmann::ordered_json& manifest);

/// Throws Refused if DIR has the manifest of an unfinished conversion to shards.
void require_complete_shards(const std::filesystem::path& dir);

/// A file that every conversion creates in its folder when it starts, and leaves there.
std::filesystem::path lock_path(const std::filesystem::path& dir);

/// Returns NpyManifest::settings as JSON. `more` is an object with further settings.
std::string npy_settings(const NpyManifest& manifest, const std::string& more);

/// Reads the manifest of .npy files in DIR. Returns no value if there is none or it is of another
/// kind. Throws Error with the file if it is damaged.
std::optional<NpyManifest> find_npy_manifest(const std::filesystem::path& dir);
void write_npy_manifest(const std::filesystem::path& dir, const NpyManifest& manifest);

}  // namespace slipstream
