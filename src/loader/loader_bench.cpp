#include "loader/loader_bench.h"

#include <algorithm>
#include <chrono>

#include "core/number_text.h"
#include "loader/plan_limits.h"
#include "slipstream/core/error.h"

namespace slipstream {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kEnough = 0.97;
constexpr std::size_t kFewestBatches = 4;

double seconds_between(Clock::time_point a, Clock::time_point b) {
  return std::chrono::duration<double>(b - a).count();
}

struct Collected {
  std::vector<double> durations_s;  ///< seconds between two batches
  std::vector<StepCounter> steps;
  std::optional<CacheCounters> cache;
  std::optional<DiskCacheState> disk_cache;
  SkippedSamples skipped;
};

void add_to(std::vector<StepCounter>& totals, const std::vector<StepCounter>& counters) {
  if (totals.empty()) {
    totals = counters;
    return;
  }
  for (std::size_t i = 0; i < totals.size(); ++i) totals[i].add(counters[i]);
}

/// Measures the loader. The slabs that were filled before the clock started are taken first,
/// because they cost no waiting time.
void measure(DataLoader& loader, const LoaderBenchOptions& options, Collected& collected) {
  const auto stopped = [&] { return options.stop && options.stop(); };
  const auto take = [&] { loader.release(loader.next(), nullptr); };
  for (std::size_t i = 0; i < loader.slabs() && !stopped(); ++i) take();
  const auto start = Clock::now();
  auto last = start;
  for (std::size_t i = 0; !stopped(); ++i) {
    take();
    const auto now = Clock::now();
    collected.durations_s.push_back(seconds_between(last, now));
    last = now;
    if (i + 1 >= kFewestBatches && seconds_between(start, now) >= options.seconds) break;
  }
  add_to(collected.steps, loader.counters());
}

/// Adds the difference between `now` and `before` to `total`, which has the counts of earlier
/// rounds.
template <typename Counters>
void add_round(std::optional<Counters>& total, std::optional<Counters> now,
               const std::optional<Counters>& before) {
  if (!now) return;
  if (before) now->subtract(*before);
  if (total) now->add(*total);
  total = std::move(now);
}

void measure_round(const std::shared_ptr<const Dataset>& dataset,
                   const std::vector<NamedOp>& transforms, const DataLoaderOptions& loader,
                   const LoaderBenchOptions& options, Collected& collected) {
  const auto before = disk_cache_state(*dataset);
  {
    DataLoader measured(dataset, transforms, loader);
    measure(measured, options, collected);
    collected.skipped.add(measured.skipped());
    if (loader.cache && !loader.cut) {
      add_round(collected.cache, std::optional(measured.cache()), {});
    }
  }
  add_round(collected.disk_cache, disk_cache_state(*dataset), before);
}

}  // namespace

std::size_t prefetched_by(unsigned prefetch_factor, unsigned num_workers) {
  const std::size_t batches = std::size_t{prefetch_factor} * num_workers;
  if (batches > kMostOfAnything)
    throw Refused("--prefetch-factor " + std::to_string(prefetch_factor) + " with " +
                  format_count(num_workers, "worker") + " prefetches " +
                  format_count(batches, "batch") + ", but at most " +
                  std::to_string(kMostOfAnything) + " are allowed; lower one of them");
  return batches;
}

std::vector<LoaderRate> measure_loader(const std::shared_ptr<const Dataset>& dataset,
                                       const std::vector<NamedOp>& transforms,
                                       const DataLoaderOptions& loader,
                                       const LoaderBenchOptions& options) {
  if (options.workers.empty() || options.repeats == 0)
    throw Refused("nothing to measure: give at least one number of workers and one repeat");
  std::vector<Collected> all(options.workers.size());
  for (unsigned round = 0; round < options.repeats; ++round)
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (options.stop && options.stop()) break;
      DataLoaderOptions each = loader;
      each.num_workers = options.workers[i];
      if (options.prefetch_factor)
        each.prefetch_batches = prefetched_by(*options.prefetch_factor, each.num_workers);
      measure_round(dataset, transforms, each, options, all[i]);
      if (options.progress)
        options.progress(round * all.size() + i + 1, all.size() * options.repeats);
    }
  std::vector<LoaderRate> rates;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i].durations_s.empty()) continue;
    Measured rate = rate_from_durations(all[i].durations_s, "samples/s");
    const auto batch = static_cast<double>(loader.batch_size);
    rate.value *= batch;
    rate.low *= batch;
    rate.high *= batch;
    rates.push_back({options.workers[i], rate, std::move(all[i].steps), all[i].cache,
                     std::move(all[i].disk_cache), std::move(all[i].skipped)});
  }
  return rates;
}

unsigned fewest_workers(std::span<const LoaderRate> rates) {
  ensure(!rates.empty(), "there are rates to choose from");
  double best = 0;
  for (const LoaderRate& rate : rates) best = std::max(best, rate.samples_per_second.value);
  unsigned fewest = 0;
  for (const LoaderRate& rate : rates)
    if (rate.samples_per_second.value >= kEnough * best && (fewest == 0 || rate.workers < fewest))
      fewest = rate.workers;
  return fewest;
}

std::vector<unsigned> workers_to_try(unsigned most) {
  std::vector<unsigned> workers;
  for (unsigned n = 1; n < most; n *= 2) workers.push_back(n);
  workers.push_back(std::max(1U, most));
  return workers;
}

}  // namespace slipstream
