#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "slipstream/datasets/dataset.h"

namespace slipstream {

/// DIR/manifest.json: what a folder of shards was made by, and the shards that are whole.
struct Manifest {
  struct Shard {
    std::string file;
    std::size_t samples = 0;  ///< 0: all were skipped, and there is no file
    std::uint64_t bytes = 0;
    std::string digest = {};  ///< of file_digest()
    std::vector<SkippedSample> skipped = {};
  };

  std::string settings;  ///< JSON; equal settings and data set give equal shards
  std::vector<Shard> shards;

  const Shard* find(const std::string& file) const;
  std::vector<SkippedSample> skipped() const;  ///< of all shards, by number
};

/// Whether DIR has a manifest, of any form, or one that is damaged; not that of somebody else.
bool has_manifest(const std::filesystem::path& dir);

/// Whether DIR has a manifest, of any form. Throws Refused, saying what differs, where that is of
/// other settings, and Error for one that cannot be read.
bool require_settings(const std::filesystem::path& dir, const std::string& settings);

/// Throws Error naming the file.
Manifest read_manifest(const std::filesystem::path& dir);
void write_manifest(const std::filesystem::path& dir, const Manifest& manifest);

/// Of the blocks of 1 MiB of a file, one after the other, as to_hex(chain64(...)) of their
/// fingerprints. Throws Error naming the file.
std::string file_digest(const std::filesystem::path& path);

}  // namespace slipstream
