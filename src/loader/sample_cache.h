#pragma once

#include <atomic>
#include <memory_resource>
#include <span>
#include <vector>

#include "core/sync.h"
#include "slipstream/core/array.h"
#include "slipstream/loader/loading.h"

namespace slipstream {

/// A field in the cache; as Field, but borrowed.
struct CachedField {
  ConstArray value;
  bool encoded = false;
};

/// What CacheOptions describes. Any thread may call anything at any time: what was put never
/// changes or moves, and is copied outside of the lock.
class SampleCache {
 public:
  /// What the index of so many samples takes.
  static std::size_t index_bytes(std::size_t samples) { return samples * sizeof(Slot); }

  /// `fields`: of every sample. REQUIRES: options.bytes is at least index_bytes(samples)
  SampleCache(std::size_t samples, std::size_t fields, const CacheOptions& options);
  ~SampleCache();
  SampleCache(const SampleCache&) = delete;
  SampleCache& operator=(const SampleCache&) = delete;

  /// Its fields, there until the cache is gone; none where it is not cached.
  std::span<const CachedField> find(std::uint64_t sample);
  bool has(std::uint64_t sample) const;
  /// Whether put() may find room.
  bool is_filling() const { return is_filling_.load(std::memory_order_relaxed); }
  /// Keeps a copy where there is room and it is not there yet.
  void put(std::uint64_t sample, const Sample& from);
  CacheCounters counters() const SLIPSTREAM_EXCLUDES(mutex_);

 private:
  using Slot = std::atomic<const CachedField*>;
  struct Block {
    void* data = nullptr;
    std::size_t bytes = 0;
  };

  /// nullptr where it is not cached.
  const CachedField* find_fields(std::uint64_t sample) const;
  std::byte* reserve(std::size_t bytes) SLIPSTREAM_EXCLUDES(mutex_);
  std::byte* take_from_block(std::size_t bytes) SLIPSTREAM_REQUIRES(mutex_);
  std::byte* add_block(std::size_t bytes) SLIPSTREAM_REQUIRES(mutex_);

  const std::size_t fields_;
  const std::size_t budget_;
  std::pmr::memory_resource* const memory_;
  std::span<Slot> index_;  ///< by sample
  std::atomic<bool> is_filling_ = true;
  std::atomic<std::uint64_t> samples_ = 0;
  std::atomic<std::uint64_t> hits_ = 0;
  std::atomic<std::uint64_t> misses_ = 0;

  mutable Mutex mutex_;
  std::vector<Block> blocks_ SLIPSTREAM_GUARDED_BY(mutex_);
  std::size_t taken_ SLIPSTREAM_GUARDED_BY(mutex_) = 0;
  std::byte* next_ SLIPSTREAM_GUARDED_BY(mutex_) = nullptr;  ///< in the block that is being filled
  std::size_t left_ SLIPSTREAM_GUARDED_BY(mutex_) = 0;
};

}  // namespace slipstream
