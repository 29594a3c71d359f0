#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "datasets/cache_file.h"
#include "features/feature_index.h"

namespace slipstream {

/// Returns DIR/N.index, a sequence of FeatureSlots, or DIR/N.records, the records in the same
/// order. Each writer has such a pair of files for itself. All processes read all pairs.
std::filesystem::path feature_index_path(const std::filesystem::path& dir, std::uint32_t number);
std::filesystem::path feature_records_path(const std::filesystem::path& dir, std::uint32_t number);

/// Returns true for names such as "0.index", "12.records".
bool is_record_file(const std::filesystem::path& name);

/// The record files of one key, opened for reading. Not thread-safe, but read() may be called from
/// several threads at the same time.
class RecordFiles {
 public:
  RecordFiles(std::filesystem::path dir, std::uint64_t record_bytes, std::uint64_t seed)
      : dir_(std::move(dir)), record_bytes_(record_bytes), seed_(seed) {}

  /// Adds the records that were published since the last call to `index`, from new files, too.
  /// Returns how many were added. Files that cannot be read are left out.
  std::size_t scan(FeatureIndex& index);

  /// One open record file.
  struct Source {
    CacheFile index, records;
    std::uint64_t scanned = 0;  ///< slots of `index` that scan() has read
  };
  using Sources = std::map<std::uint32_t, std::shared_ptr<Source>>;
  const Sources& sources() const { return sources_; }
  /// Closes the files, except for those that another thread is reading.
  void close() { sources_.clear(); }

  /// Clears the slot of a damaged record on disk, so that no process finds it again. Does nothing
  /// if another slot is there now, or if the file cannot be written.
  void erase(const FeatureRecord& record) const;

 private:
  void open_new();
  std::size_t scan(std::uint32_t number, Source& source, FeatureIndex& index) const;

  const std::filesystem::path dir_;
  const std::uint64_t record_bytes_;
  const std::uint64_t seed_;
  Sources sources_;
};

/// The pair of files that this process appends to. Functions that return an int return 0, or the
/// errno of the failure. Not thread-safe.
class RecordWriter {
 public:
  RecordWriter(std::uint64_t record_bytes, std::uint64_t seed)
      : record_bytes_(record_bytes), seed_(seed) {}

  /// Opens and locks the first pair of files that has no writer, or creates a pair. Space after the
  /// last slot, which a killed writer left, is released.
  /// REQUIRES: one process at a time calls this for a folder
  int open(const std::filesystem::path& dir);
  /// Returns false in a process that was forked after open(): it must not use the same files.
  bool is_own() const;

  /// Makes the record file longer or shorter, so that it has space for `records` new ones.
  int reserve(std::size_t records) const;
  /// Writes a record after the last one, without publishing it.
  int write(std::size_t position, std::span<const std::byte> record) const;
  /// Publishes records that were written at the positions 0 ... slots.size()-1 after the last one.
  /// `slots` need no `check`.
  int publish(std::span<FeatureSlot> slots);

 private:
  int repair();

  const std::uint64_t record_bytes_;
  const std::uint64_t seed_;
  std::unique_ptr<CacheFile> index_, records_;
  std::uint64_t next_ = 0;  ///< position of the next record
  ::pid_t process_ = -1;
};

}  // namespace slipstream
