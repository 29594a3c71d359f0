#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/sync.h"
#include "datasets/cache_file.h"
#include "features/feature_index.h"
#include "features/feature_manifest.h"
#include "features/record_files.h"

namespace slipstream {

/// Content of a store and statistics of this object.
struct FeatureStats {
  std::uint64_t records = 0;  ///< records that find() finds
  std::uint64_t bytes = 0;    ///< total size of the files of this key
  std::uint64_t hits = 0;     ///< entries that find() found
  std::uint64_t misses = 0;   ///< entries that it did not find
  std::uint64_t damaged = 0;  ///< records whose checksum did not match
};

/// Stores the features that a frozen encoder computes from each sample, in records of one size:
///   FOLDER/.lock            locked while a process creates, grows or removes features
///   FOLDER/KEY/manifest.json the key and the fields (FeatureManifest). Its modification time is
///   the
///                           time of the last use
///   FOLDER/KEY/N.index      the slots of a writer's records (FeatureSlot)
///   FOLDER/KEY/N.records    that writer's records
/// KEY is a digest of the key, so that features of other keys are never found. Any number of
/// processes may use a key at the same time; each appends to its own pair of files. A record is
/// written before its slot: an interruption at any moment loses at most the records of one write().
/// Nothing is synced: after a power failure, checksums find records that did not reach the disk.
/// Thread-safe, also while another thread calls close().
class FeatureStore {
 public:
  /// Opens the features of `key` and creates what is missing. `key` and `fields`: as in
  /// make_feature_manifest(). `budget_bytes` limits the total size of all keys in `folder`, also if
  /// several processes with the same budget write there.
  ///
  /// If the folder cannot be written, filling_ended() has the reason, and records that are there
  /// can be read. Throws Refused if `folder` is a file, or the key's folder is a symbolic link, has
  /// a manifest that this library cannot read, or records with other fields.
  FeatureStore(std::filesystem::path folder, const std::string& key, std::string_view fields,
               std::optional<std::uint64_t> budget_bytes = {});
  ~FeatureStore();
  FeatureStore(const FeatureStore&) = delete;
  FeatureStore& operator=(const FeatureStore&) = delete;

  const FeatureManifest& manifest() const { return manifest_; }
  std::uint64_t record_bytes() const { return record_bytes_; }

  /// Returns the number of the record of each entry, -1 for an entry without a record. A number
  /// stays valid until close().
  std::vector<std::int64_t> find(std::span<const FeatureEntry> entries) SLIPSTREAM_EXCLUDES(mutex_);

  /// Reads records, with up to `threads` threads, to consecutive positions of `into`. Element i of
  /// the result is false if record i is damaged. Such a record is removed. Throws Refused for a
  /// number that find() did not return. REQUIRES: `into` has numbers.size() times record_bytes()
  std::vector<bool> read(std::span<const std::int64_t> numbers, std::span<std::byte> into,
                         unsigned threads) SLIPSTREAM_EXCLUDES(mutex_);

  /// Stores the records of entries that have none. `indices`: index of each sample in its data set,
  /// for the order of exports. Returns how many were stored. If the budget or the disk is full, or
  /// writing fails, only the first records are stored, and filling_ended() has the reason.
  /// REQUIRES: one index for each entry; `records` has entries.size() times record_bytes()
  std::size_t write(std::span<const FeatureEntry> entries, std::span<const std::int64_t> indices,
                    std::span<const std::byte> records) SLIPSTREAM_EXCLUDES(writing_, mutex_);

  /// Finds records that other processes have stored since the last call. Returns how many.
  std::size_t refresh() SLIPSTREAM_EXCLUDES(mutex_);

  /// Returns why write() stores nothing any more; "" while it does.
  std::string filling_ended() const SLIPSTREAM_EXCLUDES(mutex_);
  FeatureStats stats() const SLIPSTREAM_EXCLUDES(mutex_);
  /// Returns all records that find() finds, ordered by the index of the sample, then by version.
  /// The first element of each pair is the record's number.
  std::vector<std::pair<std::int64_t, FeatureRecord>> ordered_records() const
      SLIPSTREAM_EXCLUDES(mutex_);

  /// Closes the files. Later calls of the other functions throw Refused.
  void close() SLIPSTREAM_EXCLUDES(writing_, mutex_);

 private:
  /// A record to be read, and where from.
  struct Reading {
    FeatureRecord record;
    std::shared_ptr<RecordFiles::Source> source;
  };

  void open();
  void open_to_write();
  int take_lease();
  void check_manifest(const FeatureManifest& found) const;
  void touch() const;
  void require_open() const SLIPSTREAM_REQUIRES(mutex_);
  std::vector<Reading> look_up(std::span<const std::int64_t> numbers) SLIPSTREAM_EXCLUDES(mutex_);
  void forget(std::int64_t number) SLIPSTREAM_EXCLUDES(mutex_);
  std::vector<std::size_t> new_rows(std::span<const FeatureEntry> entries) const
      SLIPSTREAM_EXCLUDES(mutex_);
  std::size_t reserve(std::size_t records) SLIPSTREAM_REQUIRES(writing_);
  std::size_t append(std::span<const std::size_t> rows, std::span<const FeatureEntry> entries,
                     std::span<const std::int64_t> indices, std::span<const std::byte> records)
      SLIPSTREAM_REQUIRES(writing_);
  void end_filling(std::string why) SLIPSTREAM_EXCLUDES(mutex_);
  void end_filling(const std::string& what, int error) SLIPSTREAM_EXCLUDES(mutex_);
  std::string budget_message(std::uint64_t folder_bytes) const;

  const std::filesystem::path folder_;
  const FeatureManifest manifest_;
  const std::filesystem::path dir_;
  const std::uint64_t record_bytes_;
  const std::uint64_t seed_;
  const std::optional<std::uint64_t> budget_bytes_;
  std::unique_ptr<CacheFile> lease_;  ///< the manifest, locked: prune_features() keeps this key
  Mutex writing_;                     ///< before mutex_ if a thread needs both
  std::optional<RecordWriter> writer_ SLIPSTREAM_GUARDED_BY(writing_);
  mutable Mutex mutex_;
  bool is_open_ SLIPSTREAM_GUARDED_BY(mutex_) = true;
  FeatureIndex index_ SLIPSTREAM_GUARDED_BY(mutex_);
  RecordFiles files_ SLIPSTREAM_GUARDED_BY(mutex_);
  FeatureStats counts_ SLIPSTREAM_GUARDED_BY(mutex_);
  std::string filling_ended_ SLIPSTREAM_GUARDED_BY(mutex_);
};

}  // namespace slipstream
