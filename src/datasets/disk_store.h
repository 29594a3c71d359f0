#pragma once

#include <atomic>
#include <optional>
#include <set>
#include <string>

#include "core/sync.h"
#include "datasets/cache_file.h"
#include "datasets/disk_record.h"
#include "slipstream/datasets/disk_cache.h"

namespace slipstream {

/// The folder of a disk cache. It has three files:
///   cache.json     the manifest: which data set it belongs to
///   cache.index    one RecordSlot per sample, in order: all processes find an entry without a
///                  search, and nothing is scanned or kept in memory
///   cache.samples  contiguous records, in the order in which they were stored
/// To store a sample, its space is reserved first, then the record is written, then its slot. An
/// interruption at any point wastes space, but no slot refers to an incomplete record. Thread-safe.
class DiskStore {
 public:
  /// `manifest` is the content of cache.json. Throws Refused as disk_cached() does.
  DiskStore(const DiskCacheOptions& options, const std::string& manifest, std::size_t samples,
            std::size_t fields);

  /// Reads a stored sample into `out`. Returns false if there is none; `out` is unspecified then.
  bool read(std::uint64_t sample, Sample& out) const;
  /// Stores a copy, unless storing has stopped, or another thread has stored the sample or is
  /// storing it. (Two processes may both store a sample; one copy is then unused.)
  void write(std::uint64_t sample, const Sample& from) SLIPSTREAM_EXCLUDES(mutex_);
  DiskCacheState state() const SLIPSTREAM_EXCLUDES(mutex_);

 private:
  /// One thread's exclusive right to store a sample.
  class Claim {
   public:
    Claim(DiskStore& store, std::uint64_t sample);
    ~Claim();
    Claim(const Claim&) = delete;
    Claim& operator=(const Claim&) = delete;
    bool is_held() const { return is_held_; }

   private:
    DiskStore& store_;
    const std::uint64_t sample_;
    bool is_held_ = false;
  };

  bool is_stored(std::uint64_t sample) const;
  bool fetch(std::uint64_t sample, Sample& out) const;
  void open(const std::string& manifest);
  void open_to_write(const std::string& manifest);
  void open_to_read(const std::string& manifest);
  std::optional<std::uint64_t> reserve(std::uint64_t bytes) SLIPSTREAM_EXCLUDES(mutex_);
  void release_space(std::uint64_t offset, std::uint64_t bytes) SLIPSTREAM_EXCLUDES(mutex_);
  int put(std::uint64_t sample, std::uint64_t offset, std::span<const StoredForm> head,
          const Sample& from);
  void stop(std::string why) SLIPSTREAM_EXCLUDES(mutex_);
  void stop_at(const std::string& what, int error) SLIPSTREAM_EXCLUDES(mutex_);

  const std::filesystem::path dir_;
  const std::uint64_t max_bytes_;
  const std::uint64_t index_bytes_;
  const std::uint64_t fixed_bytes_;  ///< index and manifest
  const std::size_t fields_;
  const std::uint64_t seed_;  ///< seed of the slots' checksums
  CacheFile index_;
  CacheFile samples_;
  std::atomic<bool> is_storing_ = true;
  mutable std::atomic<std::uint64_t> hits_ = 0;
  mutable std::atomic<std::uint64_t> misses_ = 0;
  std::atomic<std::uint64_t> stored_ = 0;
  mutable Mutex mutex_;
  std::string stopped_ SLIPSTREAM_GUARDED_BY(mutex_);
  std::set<std::uint64_t> being_stored_ SLIPSTREAM_GUARDED_BY(mutex_);
};

}  // namespace slipstream
