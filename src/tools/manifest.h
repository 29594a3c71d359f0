#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "slipstream/datasets/dataset.h"

namespace slipstream {

/// DIR/manifest.json: the settings that a folder of shards was written with, and the complete
/// shards.
struct Manifest {
  struct Shard {
    std::string file;
    std::size_t samples = 0;  ///< 0 if all were skipped; then there is no file
    std::uint64_t bytes = 0;
    std::string digest = {};  ///< result of file_digest()
    std::vector<SkippedSample> skipped = {};
  };

  std::string settings;  ///< JSON; equal settings and data set give equal shards
  std::vector<Shard> shards;

  const Shard* find(const std::string& file) const;
  std::vector<SkippedSample> skipped() const;  ///< samples of all shards, by index
};

/// Returns true if DIR has a manifest of any format, even a damaged one. Returns false for a
/// manifest.json of another program.
bool has_manifest(const std::filesystem::path& dir);

/// Returns true if DIR has a manifest of any format. Throws Refused with the differences if it has
/// other settings, and Error if it cannot be read.
bool require_settings(const std::filesystem::path& dir, const std::string& settings);

/// Reads the manifest. Throws Error with the file.
Manifest read_manifest(const std::filesystem::path& dir);
void write_manifest(const std::filesystem::path& dir, const Manifest& manifest);

/// Returns the digest of a file: to_hex(chain64(...)) of the fingerprints of its consecutive blocks
/// of 1 MiB. Throws Error with the file.
std::string file_digest(const std::filesystem::path& path);

}  // namespace slipstream
