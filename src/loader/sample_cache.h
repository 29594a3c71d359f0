#pragma once

#include <atomic>
#include <memory_resource>
#include <span>
#include <vector>

#include "core/sync.h"
#include "slipstream/core/array.h"
#include "slipstream/loader/loading.h"

namespace slipstream {

/// A field in the cache: like Field, but it refers to memory of the cache.
struct CachedField {
  ConstArray value;
  bool encoded = false;
};

/// The cache that CacheOptions describes. Any thread may call any function at any time. Stored data
/// never changes or moves, so it can be read without a lock, and put() copies outside of the lock.
class SampleCache {
 public:
  /// Returns the size of the index for this number of samples.
  static std::size_t index_bytes(std::size_t samples) { return samples * sizeof(Slot); }

  /// `fields` is the number of fields of every sample. REQUIRES: options.bytes is at least
  /// index_bytes(samples)
  SampleCache(std::size_t samples, std::size_t fields, const CacheOptions& options);
  ~SampleCache();
  SampleCache(const SampleCache&) = delete;
  SampleCache& operator=(const SampleCache&) = delete;

  /// Returns the fields of a sample, which are valid until the cache is destroyed; empty if the
  /// sample is not cached.
  std::span<const CachedField> find(std::uint64_t sample);
  bool has(std::uint64_t sample) const;
  /// Returns true if put() may still find space.
  bool is_filling() const { return is_filling_.load(std::memory_order_relaxed); }
  /// Stores a copy of the sample if there is space and it is not stored yet.
  void put(std::uint64_t sample, const Sample& from);
  CacheCounters counters() const SLIPSTREAM_EXCLUDES(mutex_);

 private:
  using Slot = std::atomic<const CachedField*>;
  struct Block {
    void* data = nullptr;
    std::size_t bytes = 0;
  };

  /// Returns nullptr if the sample is not cached.
  const CachedField* find_fields(std::uint64_t sample) const;
  std::byte* reserve(std::size_t bytes) SLIPSTREAM_EXCLUDES(mutex_);
  std::byte* take_from_block(std::size_t bytes) SLIPSTREAM_REQUIRES(mutex_);
  std::byte* add_block(std::size_t bytes) SLIPSTREAM_REQUIRES(mutex_);

  const std::size_t fields_;
  const std::size_t budget_;
  std::pmr::memory_resource* const memory_;
  std::span<Slot> index_;  ///< index by sample
  std::atomic<bool> is_filling_ = true;
  std::atomic<std::uint64_t> samples_ = 0;
  std::atomic<std::uint64_t> hits_ = 0;
  std::atomic<std::uint64_t> misses_ = 0;

  mutable Mutex mutex_;
  std::vector<Block> blocks_ SLIPSTREAM_GUARDED_BY(mutex_);
  std::size_t taken_ SLIPSTREAM_GUARDED_BY(mutex_) = 0;
  /// Next free byte in the block that is being filled.
  std::byte* next_ SLIPSTREAM_GUARDED_BY(mutex_) = nullptr;
  std::size_t left_ SLIPSTREAM_GUARDED_BY(mutex_) = 0;
};

}  // namespace slipstream
