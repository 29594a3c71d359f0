#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "slipstream/datasets/datasets.h"

namespace slipstream {

/// Options of disk_cached().
struct DiskCacheOptions {
  std::filesystem::path dir = {};  ///< the cache's own folder; made where it is missing
  /// The size of the files in `dir` at most, whoever else writes there with the same limit. The
  /// index takes 32 bytes for each sample of the data set; a stored sample takes its values and 40
  /// bytes for each field. A lower limit than that of an earlier run deletes nothing.
  std::uint64_t max_bytes = 0;
  /// A text that tells the data set from others and from other versions of itself. Empty: its size,
  /// fields and Dataset::identity(). Give a version where files may change and keep their names, or
  /// where names differ between machines that share `dir`.
  std::string identity = {};
};

/// What a cache on disk holds and how often this object used it.
struct DiskCacheState {
  std::uint64_t hits = 0;    ///< samples that this object read from the cache
  std::uint64_t misses = 0;  ///< samples that it read from the data set
  std::uint64_t stored = 0;  ///< samples among the misses that it put into the cache
  std::uint64_t bytes = 0;   ///< size of the files, of DiskCacheOptions::max_bytes
  std::string stop_reason =
      {};  ///< why nothing more is stored: full, or what failed; empty: it goes on

  /// Adds what another part of the run read. The size of the files stays as it is.
  void add(const DiskCacheState& other) {
    hits += other.hits;
    misses += other.misses;
    stored += other.stored;
  }
  /// Takes away what `earlier` counted, a reading of the same object, so that what was read after
  /// it is left.
  void subtract(const DiskCacheState& earlier) {
    hits -= earlier.hits;
    misses -= earlier.misses;
    stored -= earlier.stored;
  }
};

/// Keeps the samples of `dataset`, as its read() gives them, in files on a faster disk, and reads
/// them from there when they are needed again, in this process and later ones, with the same bytes.
///
/// Threads and processes may share a folder; each finds what the others stored. A sample has a
/// checksum: one that a killed process left half written is not used, and a damaged one is read
/// from `dataset` and stored again. When `dir` cannot be written or the disk is full, nothing more
/// is stored and reading goes on (disk_cache_state() says why). A cache that can be read but not
/// written is used as it is. What the data set's read() throws is thrown on, and nothing is stored.
/// The files are not synced: a power cut may lose what was stored last.
///
/// Throws Refused for a null data set, no folder, a folder that holds the cache of another data set
/// (naming what differs), a limit too low for the index, or more than 32 fields.
std::shared_ptr<const Dataset> disk_cached(std::shared_ptr<const Dataset> dataset,
                                           const DiskCacheOptions& options);
std::shared_ptr<const LabeledDataset> disk_cached(std::shared_ptr<const LabeledDataset> dataset,
                                                  const DiskCacheOptions& options);

/// The state of the cache of a data set that disk_cached() made; no value for other data sets.
std::optional<DiskCacheState> disk_cache_state(const Dataset& dataset);

}  // namespace slipstream
