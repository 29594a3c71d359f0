#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "slipstream/loader.h"

namespace slipstream {

struct ConvertOptions {
  std::vector<NamedOp> transforms = {};  ///< of the operations of transforms.h and resize.h
  int quality = 90;                      ///< of JPEG files that are encoded anew, 1 to 100
  std::size_t samples_per_shard = 1024;
  unsigned threads = 0;             ///< 0: one a core; each writes a shard
  std::function<bool()> stop = {};  ///< asked before each sample; true ends after those at hand
  std::function<void(std::size_t done, std::size_t all)> progress = {};  ///< shards, from threads
};

struct Converted {
  std::size_t shards = 0;   ///< of the whole data set
  std::size_t written = 0;  ///< by this call; the others were there
  bool is_whole = false;    ///< false after a stop
};

/// Writes `dataset` to DIR/shard-NNNNNN.tar, which tar_shards() reads, and DIR/manifest.json: the
/// settings, and size and digest of each shard. Images of which no transform changes anything are
/// copied as the files they are; the others become JPEG. Masks become PNG, class labels text. The
/// bytes are a pure function of data set and options.
///
/// May be interrupted at any time, and called again: shards in the manifest are kept, all others
/// written anew. A shard appears under its name only when it is whole.
///
/// Throws Refused for options that make no sense, a random transform, fields that shards cannot
/// hold, and a manifest of other settings; Error for a bad sample (naming it) and for a file that
/// cannot be written (a full disk).
Converted convert_to_shards(const Dataset& dataset, const std::filesystem::path& dir,
                            const ConvertOptions& options = {});

/// What differs from DIR/manifest.json: shards that are missing, of another size, or changed.
/// Reads all of them. Throws Error for a manifest that cannot be read.
std::vector<std::string> check_shards(const std::filesystem::path& dir);

/// Takes the transforms off the front of `chain` that are not random, and returns them.
std::vector<NamedOp> take_fixed_transforms(std::vector<NamedOp>& chain);

}  // namespace slipstream
