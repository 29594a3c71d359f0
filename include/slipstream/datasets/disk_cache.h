#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "slipstream/datasets/datasets.h"

namespace slipstream {

struct DiskCacheOptions {
  std::filesystem::path dir = {};  ///< made where it is missing; holds nothing else
  /// The files in `dir` never hold more, whoever else writes there with the same limit: 32 bytes a
  /// sample of the data set for the index, then 40 bytes a field and the values of each sample. (A
  /// lower limit than the one before deletes nothing.)
  std::uint64_t max_bytes = 0;
  /// What tells the data set from others and from other versions of itself; empty: its size, fields
  /// and Dataset::identity(). Give a version where files may change behind their names, or where
  /// names differ between machines that share `dir`.
  std::string identity = {};
};

struct DiskCacheState {
  std::uint64_t hits = 0;    ///< samples read from the cache by this object
  std::uint64_t misses = 0;  ///< and from the data set
  std::uint64_t stored = 0;  ///< of the misses, those that it put into the cache
  std::uint64_t bytes = 0;   ///< in the files, of DiskCacheOptions::max_bytes
  std::string stopped = {};  ///< why nothing more is stored: full, or what failed; empty: it is

  /// Adds what another part of the run read; what is in the files stays.
  void add(const DiskCacheState& other) {
    hits += other.hits;
    misses += other.misses;
    stored += other.stored;
  }
  /// Leaves what was read after `earlier`.
  void subtract(const DiskCacheState& earlier) {
    hits -= earlier.hits;
    misses -= earlier.misses;
    stored -= earlier.stored;
  }
};

/// `dataset` with its samples, as read() gives them, kept in files on a faster disk: what was read
/// once comes from there, in this process and later ones, with the same bytes.
///
/// Threads and processes may share a folder; each finds what the others stored. A sample counts
/// only behind its checksum: what a killed process left half written is not believed, and a damaged
/// sample is read from `dataset` again and stored anew. When `dir` cannot be written or the disk is
/// full, nothing more is stored and reading goes on (disk_cache_state() says why); a cache that can
/// be read but not written is used as it is. What read() throws is passed on, and nothing stored.
/// The files are not synced: a power cut may cost what was stored last.
///
/// Throws Refused for a folder that holds the cache of another data set (naming what differs), a
/// limit too low for the index, or more than 32 fields.
std::shared_ptr<const Dataset> disk_cached(std::shared_ptr<const Dataset> dataset,
                                           const DiskCacheOptions& options);
std::shared_ptr<const LabeledDataset> disk_cached(std::shared_ptr<const LabeledDataset> dataset,
                                                  const DiskCacheOptions& options);

/// Of a data set that disk_cached() made; nothing for others.
std::optional<DiskCacheState> disk_cache_state(const Dataset& dataset);

}  // namespace slipstream
