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
/// and, where bad samples were skipped, "skipped": [{"sample": 3, "message": "..."}, ...].
struct NpyManifest {
  std::string settings;  ///< JSON; samples, samples_per_block and fields are parts of it
  std::size_t samples = 0;
  std::size_t samples_per_block = 1;
  std::vector<FieldSpec> fields;  ///< of fixed shapes
  /// Digests of each field's samples in a block; none for one that is not written yet.
  std::vector<std::vector<std::uint64_t>> blocks;
  std::vector<SkippedSample> skipped = {};  ///< numbered as in the source; `samples` lacks them

  std::size_t written() const;
  bool is_complete() const { return written() == blocks.size(); }
  std::size_t block_begin(std::size_t block) const { return block * samples_per_block; }
  std::size_t block_end(std::size_t block) const;
};

std::filesystem::path manifest_path(const std::filesystem::path& dir);
std::filesystem::path npy_path(const std::filesystem::path& dir, const std::string& field);

/// Whether a field of this name can be a file: ASCII letters, digits, '_', '-' and '.', which it
/// does not begin with.
bool is_npy_name(const std::string& field);

/// The manifest of any form; nothing where there is none, discarded where it is no JSON.
std::optional<nlohmann::ordered_json> find_manifest(const std::filesystem::path& dir);

/// What the manifests of all forms have as their version.
inline constexpr int kManifestVersion = 1;
/// Throws Error, naming the file, for a manifest that says no version or another.
void require_manifest_version(const std::filesystem::path& path,
                              const nlohmann::ordered_json& manifest);

/// Throws Refused where DIR has the manifest of a conversion to shards that is not finished.
void require_complete_shards(const std::filesystem::path& dir);

/// A file that every conversion leaves in its folder, from its beginning on.
std::filesystem::path lock_path(const std::filesystem::path& dir);

/// `settings` as JSON, for the manifest of such data; `more` is an object of other settings.
std::string npy_settings(const NpyManifest& manifest, const std::string& more);

/// Nothing where DIR has no manifest, or one of another form. Throws Error, naming the file, for
/// one that is damaged.
std::optional<NpyManifest> find_npy_manifest(const std::filesystem::path& dir);
void write_npy_manifest(const std::filesystem::path& dir, const NpyManifest& manifest);

}  // namespace slipstream
