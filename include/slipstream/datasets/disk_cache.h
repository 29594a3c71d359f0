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
  std::filesystem::path dir = {};  ///< the cache's own folder; created if it is missing
  /// Maximum total size of the files in `dir`, also if other processes with the same limit write
  /// there. The index takes 32 bytes for each sample of the data set; a stored sample takes its
  /// values and 40 bytes for each field. A lower limit than that of an earlier run deletes nothing.
  std::uint64_t max_bytes = 0;
  /// A text that identifies the data set and its version. If empty: its size, fields and
  /// Dataset::identity(). Set it if files may change and keep their names, or if names differ
  /// between machines that share `dir`.
  std::string identity = {};
};

/// Content of a cache on disk and statistics of this object.
struct DiskCacheState {
  std::uint64_t hits = 0;    ///< samples that this object read from the cache
  std::uint64_t misses = 0;  ///< samples that it read from the data set
  std::uint64_t stored = 0;  ///< samples among the misses that it stored in the cache
  std::uint64_t bytes = 0;   ///< total size of the files, limited by DiskCacheOptions::max_bytes
  /// Why storing has stopped: the cache is full, or an error; empty while it continues.
  std::string stop_reason = {};

  /// Adds the counts of another part of the run. The size of the files does not change.
  void add(const DiskCacheState& other) {
    hits += other.hits;
    misses += other.misses;
    stored += other.stored;
  }
  /// Subtracts the counts of `earlier`, a previous reading of the same object, which leaves the
  /// counts since then.
  void subtract(const DiskCacheState& earlier) {
    hits -= earlier.hits;
    misses -= earlier.misses;
    stored -= earlier.stored;
  }
};

/// Stores the samples of `dataset`, as its read() returns them, in files on a faster disk, and
/// reads them from there when they are needed again, in this process and later ones, with the same
/// bytes.
///
/// Threads and processes may share a folder; each finds what the others stored. Every sample has a
/// checksum: one that a killed process left incomplete is not used, and a damaged one is read from
/// `dataset` and stored again. If `dir` cannot be written or the disk is full, storing stops and
/// reading continues (disk_cache_state() gives the reason). A cache that can be read but not
/// written is used read-only. Exceptions from the data set's read() propagate, and nothing is
/// stored. The files are not synced: a power failure may lose the latest samples.
///
/// Throws Refused for a null data set, no folder, a folder that holds the cache of another data set
/// (naming the differences), a limit too low for the index, or more than 32 fields.
std::shared_ptr<const Dataset> disk_cached(std::shared_ptr<const Dataset> dataset,
                                           const DiskCacheOptions& options);
std::shared_ptr<const LabeledDataset> disk_cached(std::shared_ptr<const LabeledDataset> dataset,
                                                  const DiskCacheOptions& options);

/// Returns the state of the cache of a data set that disk_cached() returned, or no value for other
/// data sets. Thread-safe.
std::optional<DiskCacheState> disk_cache_state(const Dataset& dataset);

}  // namespace slipstream
