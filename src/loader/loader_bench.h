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

/// Batches ahead of all workers together, from PyTorch's prefetch_factor, those of one worker.
/// Throws Refused for more than a plan may say.
std::size_t prefetched_by(unsigned prefetch_factor, unsigned num_workers);

struct LoaderBenchOptions {
  std::vector<unsigned> workers = {1, 2, 4, 8};
  double seconds = 1;    ///< of each measurement, at most
  unsigned repeats = 3;  ///< rounds in which all numbers of workers take turns
  /// Batches that are filled ahead, of each worker; nothing: the loader's number of batches in all.
  std::optional<unsigned> prefetch_factor = std::nullopt;
  std::function<bool()> stop = {};  ///< asked between batches; true ends the measurement
  /// Told after each of repeats x workers measurements, on the calling thread.
  std::function<void(std::size_t done, std::size_t all)> progress = {};
};

/// The loader alone: its batches are taken as fast as they come and thrown away.
struct LoaderRate {
  unsigned workers = 0;
  Measured samples_per_second;
  std::vector<StepCounter> steps;  ///< host steps, over all rounds
  /// Where the loader has a cache, which is empty at the beginning of each round.
  std::optional<CacheCounters> cache = std::nullopt;
  /// Where the data set is disk_cached(); it is kept from round to round.
  std::optional<DiskCacheState> disk_cache = std::nullopt;
  /// Where bad samples are skipped; in batches filled ahead too.
  SkippedSamples skipped = {};
};

/// Measures the loader with each number of workers; that in `loader` is not used. Rows
/// that a stop left without a figure are left out. Throws what DataLoader and prefetched_by()
/// throw.
std::vector<LoaderRate> measure_loader(const std::shared_ptr<const Dataset>& dataset,
                                       const std::vector<NamedOp>& transforms,
                                       const DataLoaderOptions& loader,
                                       const LoaderBenchOptions& options);

/// The fewest workers that reach 0.97 of the best rate: more would take cores, and with a lock or
/// the memory's bandwidth in the way more can be slower. REQUIRES: `rates` is not empty
unsigned fewest_workers(std::span<const LoaderRate> rates);

/// 1, 2, 4, ... up to `most`, which is the last: what --num-workers auto tries.
std::vector<unsigned> workers_to_try(unsigned most);

}  // namespace slipstream
