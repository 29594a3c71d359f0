#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "slipstream/core/statistics.h"
#include "slipstream/datasets/disk_cache.h"
#include "slipstream/loader/data_loader.h"

namespace slipstream {

/// Returns the number of batches that all workers together prefetch, given PyTorch's
/// prefetch_factor, which is the number for one worker. Throws Refused if the result exceeds the
/// limit of a plan.
std::size_t prefetched_by(unsigned prefetch_factor, unsigned num_workers);

struct LoaderBenchOptions {
  std::vector<unsigned> workers = {1, 2, 4, 8};
  double seconds = 1;    ///< longest duration of each measurement, in seconds
  unsigned repeats = 3;  ///< number of rounds; each measures every number of workers once
  /// Number of batches that each worker prefetches; no value: the total number in the loader's
  /// options.
  std::optional<unsigned> prefetch_factor = std::nullopt;
  /// Called between batches; if it returns true, the measurement ends.
  std::function<bool()> stop = {};
  /// Called after each of the repeats x workers measurements, on the calling thread.
  std::function<void(std::size_t done, std::size_t all)> progress = {};
};

/// The rate of the loader alone: its batches are taken as fast as possible and discarded.
struct LoaderRate {
  unsigned workers = 0;
  Measured samples_per_second;
  std::vector<StepCounter> steps;  ///< host steps, over all rounds
  /// Counters of the loader's cache, if it has one. The cache is empty at the start of each round.
  std::optional<CacheCounters> cache = std::nullopt;
  /// State of the disk cache, if the data set has one. It is kept from round to round.
  std::optional<DiskCacheState> disk_cache = std::nullopt;
  /// Skipped bad samples, including those in prefetched batches.
  SkippedSamples skipped = {};
};

/// Measures the loader with each number of workers in `options`; num_workers in `loader` is
/// ignored. Numbers that were not measured before a stop are left out. Throws what DataLoader and
/// prefetched_by() throw.
std::vector<LoaderRate> measure_loader(const std::shared_ptr<const Dataset>& dataset,
                                       const std::vector<NamedOp>& transforms,
                                       const DataLoaderOptions& loader,
                                       const LoaderBenchOptions& options);

/// Returns the smallest number of workers that reaches 0.97 of the best rate. More workers would
/// occupy cores for little gain, and can even be slower if they contend for a lock or for memory
/// bandwidth. REQUIRES: `rates` is not empty
unsigned fewest_workers(std::span<const LoaderRate> rates);

/// Returns 1, 2, 4, ... and finally `most`: the numbers that --num-workers auto tries.
std::vector<unsigned> workers_to_try(unsigned most);

}  // namespace slipstream
