#pragma once

#include <memory>
#include <string>
#include <vector>

#include "loader/sample_cache.h"
#include "loader/sample_steps.h"

namespace slipstream {

/// Adds the problems of a cache for `samples` samples to `problems`.
void check_cache(const CacheOptions& options, const std::vector<NamedOp>& transforms,
                 std::size_t samples, std::vector<std::string>& problems);

/// The host steps, with a cache that replaces the first of them, if there is one.
class CachedSteps {
 public:
  /// Uses the cache of `options`, unless there is a cut. `steps` must outlive this object.
  /// REQUIRES: check_cache() finds no problem
  CachedSteps(const SampleSteps& steps, std::size_t samples, const DataLoaderOptions& options);

  /// Makes the sample of `place` and writes it to its position in the slab. Starts with the cached
  /// sample or, if it is not cached, with step `first`: 0, or 1 if `buffers` contains what was
  /// read. Throws what SampleSteps throws. A sample for which a step up to the cached one throws is
  /// not cached.
  void make(const SamplePosition& place, std::size_t first, SampleBuffers& buffers, std::byte* slab,
            StepMeter& meter);
  bool has(std::uint64_t sample) const { return cache_ && cache_->has(sample); }
  CacheCounters counters() const { return cache_ ? cache_->counters() : CacheCounters(); }

 private:
  const SampleSteps& steps_;
  std::shared_ptr<SampleCache> cache_;  ///< nullptr: there is none
  std::size_t next_step_ = 0;           ///< the first step that the cache does not replace
};

}  // namespace slipstream
