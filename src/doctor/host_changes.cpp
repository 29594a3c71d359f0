#include <algorithm>
#include <cmath>

#include "core/number_text.h"
#include "doctor/changes.h"

namespace slipstream {
namespace {

constexpr double kEnough = 0.98;  ///< share of the best rate that needs no more workers or readers
constexpr double kShareOfMemory = 0.5;  ///< share of the free memory for a cache
constexpr double kWaits = 0.5;          ///< share of a step's time that is mostly waiting
constexpr unsigned kMostThreads = 64;
constexpr unsigned kMostPrefetched = 32;  ///< largest number of additional batches

double step_cost(const PipelineModel::Step& step) {
  return compute_mean(step.waiting_s) + compute_mean(step.working_s);
}

void set_cost(PipelineModel::Step& step, double working_s) {
  make_free(step);
  step.working_s = {static_cast<float>(working_s)};
}

/// Returns the smallest n in 1 ... most for which the model, changed by set(model, n), is about as
/// fast as with the best n. Tries 1 to 4 and then steps of a quarter, to run few simulations.
template <typename Set>
unsigned fewest(const PipelineModel& now, unsigned most, const Set& set) {
  std::vector<std::pair<unsigned, double>> tried;
  double best = 0;
  for (unsigned n = 1; n <= most; n = n < 4 ? n + 1 : n + n / 4) {
    PipelineModel model = now;
    set(model, n);
    const double step_s = simulated_step_s(model);
    tried.emplace_back(n, step_s > 0 ? 1 / step_s : 0);
    best = std::max(best, tried.back().second);
  }
  for (const auto& [n, rate] : tried)
    if (rate >= kEnough * best) return n;
  return most;
}

}  // namespace

unsigned enough_workers(const PipelineModel& now) {
  return fewest(now, kMostThreads, [](PipelineModel& model, unsigned n) { model.set_workers(n); });
}

/// Proposes half of the workers if these were measured to be faster than all. The simulation cannot
/// predict this, because it does not know how workers slow each other down.
bool Changes::fewer_workers() {
  const Measured& half = observed_.rate_of_half_of_workers;
  const unsigned n = now_.workers / 2;
  if (n == 0 || half.n == 0 || half.low < kLeastGain * observed_.rate_of_all_workers.high)
    return false;
  Change change;
  change.id = "num_workers";
  change.effort = Effort::option;
  change.description = "use " + format_count(n, "worker") + ": more of them slow each other down";
  change.action = "--num-workers " + std::to_string(n);
  change.number = n;
  change.apply = [n](Plan& plan) { plan.schedule.loader.num_workers = n; };
  change.model = [n, by = drained_rate(now_, n) / half.value](PipelineModel& model) {
    model.set_workers(n);
    scale_costs(model, by);
  };
  add(std::move(change));
  return true;
}

void Changes::workers() {
  if (fewer_workers()) return;
  const unsigned n = enough_workers(now_);
  if (n == observed_.workers) return;
  Change change;
  change.id = "num_workers";
  change.effort = Effort::option;
  change.description = "use " + format_count(n, "worker");
  change.action = "--num-workers " + std::to_string(n);
  change.number = n;
  change.apply = [n](Plan& plan) { plan.schedule.loader.num_workers = n; };
  change.model = [n](PipelineModel& model) { model.set_workers(n); };
  add(std::move(change));
}

/// Prefetched batches keep training busy while slow samples of later batches are produced.
void Changes::prefetch() {
  if (observed_.workers == 0) return;
  const double slab_bytes = observed_.host.back().bytes * static_cast<double>(now_.batch_size);
  const double room = kShareOfMemory * static_cast<double>(situation_.free_memory_bytes);
  const double fitting = slab_bytes > 0 ? room / slab_bytes : kMostPrefetched;
  const auto most = static_cast<unsigned>(std::min<double>(kMostPrefetched, fitting));
  if (most == 0) return;
  const unsigned more =
      fewest(now_, most, [](PipelineModel& model, unsigned n) { model.slabs += n; });
  const std::size_t n = situation_.plan.schedule.loader.prefetch_batches + more;
  Change change;
  change.id = "prefetch_batches";
  change.effort = Effort::option;
  change.description =
      "prefetch " + format_count(n, "batch") + ": some samples take much longer than others";
  change.action = "\"prefetch_batches\": " + std::to_string(n) + " in the plan";
  change.number = n;
  change.apply = [n](Plan& plan) { plan.schedule.loader.prefetch_batches = n; };
  change.model = [more](PipelineModel& model) { model.slabs += more; };
  add(std::move(change));
}

/// Caches after the latest fixed step whose results fit: results of a random step must not be
/// reused.
void Changes::cache() {
  const PipelineModel::Step* last = now_.find(situation_.last_fixed_step);
  if (last == nullptr || situation_.samples == 0) return;
  const double room = kShareOfMemory * static_cast<double>(situation_.free_memory_bytes);
  for (auto i = static_cast<std::size_t>(last - now_.steps.data()) + 1; i-- > 0;) {
    // 128 bytes is an estimate of the cache's overhead for a sample: an entry for a field, and
    // padding.
    const double each = observed_.host[i].bytes + 128;
    const double bytes = each * static_cast<double>(situation_.samples);
    if (bytes > room || observed_.host[i].is_inside) continue;
    const std::string& after = now_.steps[i].name;
    const auto size = static_cast<std::size_t>(std::ceil(bytes * 1.1));
    Change change;
    change.id = "cache";
    change.effort = Effort::option;
    change.description = "cache samples in memory after '" + after + "' (" +
                         size_text(static_cast<double>(size)) +
                         "); the first epoch fills the cache";
    change.action = "--cache " + after + "=" + std::to_string((size >> 20) + 1) + "M";
    change.bottleneck = now_.steps[i].group;
    change.step = after;
    change.apply = [after, size](Plan& plan) {
      plan.schedule.loader.cache = CacheOptions{after, size + (std::size_t{1} << 20)};
    };
    change.model = [i, each,
                    rate = observed_.capacity.copy_bytes_per_second](PipelineModel& model) {
      for (std::size_t k = 0; k <= i; ++k) make_free(model.steps[k]);
      set_cost(model.steps[i], each / rate);
    };
    return add(std::move(change));
  }
}

void Changes::read_ahead() {
  const PipelineModel::Step& read = now_.steps.front();
  if (compute_mean(read.waiting_s) < kWaits * step_cost(read)) return;
  const auto set = [](PipelineModel& model, unsigned n) { model.readers = n; };
  const unsigned n = fewest(now_, kMostThreads, set);
  Change change;
  change.id = "read_ahead";
  change.effort = Effort::option;
  change.description =
      "keep " + format_count(n, "read") + " in flight: each read waits for storage";
  change.action = "--read-ahead " + std::to_string(n);
  change.number = n;
  change.bottleneck = Bottleneck::read;
  change.apply = [n](Plan& plan) { plan.schedule.loader.read_ahead.reads = n; };
  change.model = [n](PipelineModel& model) { model.readers = n; };
  add(std::move(change));
}

Change Changes::without(std::size_t step) const {
  Change change;
  change.bottleneck = now_.steps[step].group;
  change.step = now_.steps[step].name;
  change.is_upper_bound = true;
  change.model = [step](PipelineModel& model) { make_free(model.steps[step]); };
  return change;
}

Change Changes::without_group(Bottleneck group) const {
  Change change;
  change.bottleneck = group;
  change.step = now_.steps[*costliest(group)].name;
  change.is_upper_bound = true;
  change.model = [group](PipelineModel& model) {
    for (PipelineModel::Step& step : model.steps)
      if (step.group == group) make_free(step);
  };
  return change;
}

std::optional<std::size_t> Changes::costliest(Bottleneck group) const {
  std::optional<std::size_t> found;
  for (std::size_t i = 0; i < now_.steps.size(); ++i)
    if (now_.steps[i].group == group &&
        step_cost(now_.steps[i]) > (found ? step_cost(now_.steps[*found]) : 0))
      found = i;
  return found;
}

void Changes::smaller_samples() {
  if (!costliest(Bottleneck::read)) return;
  Change change = without_group(Bottleneck::read);
  change.id = "smaller_samples";
  change.effort = Effort::data;
  change.description = "read less: store smaller samples, in shards that are read sequentially";
  change.action = "slipstream convert --data DIR --to shards --resize N --out NEW";
  add(std::move(change));
}

void Changes::crop_first() {
  const PipelineModel::Step* crop = now_.find(situation_.crop);
  const PipelineModel::Step* moved_before = now_.find(situation_.crop_moved_before);
  if (crop == nullptr || moved_before == nullptr) return;
  const auto first = static_cast<std::size_t>(moved_before - now_.steps.data());
  const auto at = static_cast<std::size_t>(crop - now_.steps.data());
  Change change;
  change.id = "crop_first";
  change.description = "move '" + situation_.crop + "' before '" + situation_.crop_moved_before +
                       "', which needs no pixels outside the crop";
  change.action = "in the file of transforms, or the order of .transform(...)";
  change.bottleneck = Bottleneck::transforms;
  change.step = situation_.crop;
  change.is_upper_bound = true;
  change.model = [first, at](PipelineModel& model) {
    for (std::size_t i = first; i < at; ++i) make_free(model.steps[i]);
  };
  add(std::move(change));
}

void Changes::convert() {
  if (!costliest(Bottleneck::decode)) return;
  Change change = without_group(Bottleneck::decode);
  change.id = "convert";
  change.effort = Effort::data;
  change.description = "decode once: store the samples as arrays, or store smaller samples";
  change.action = "slipstream convert --data DIR --to npy --resize N --out NEW";
  add(std::move(change));
}

void Changes::contention() {
  for (std::size_t i = 0; i < now_.steps.size(); ++i) {
    const PipelineModel::Step& step = now_.steps[i];
    if (step.locked <= 0 && !step.is_memory_bound) continue;
    Change change;
    const bool locks = step.locked > 0;
    change.id = locks ? "lock_contention" : "memory_bandwidth";
    change.description =
        locks
            ? "let several workers run '" + step.name + "' at the same time: they wait for its lock"
            : "let '" + step.name + "' move less memory: workers share its bandwidth";
    change.action = "in the code of '" + step.name + "'";
    change.step = step.name;
    change.bottleneck = locks ? Bottleneck::lock_contention : Bottleneck::memory_bandwidth;
    change.is_upper_bound = true;
    change.model = [i](PipelineModel& model) {
      model.steps[i].locked = 0;
      model.steps[i].is_memory_bound = false;
    };
    add(std::move(change));
  }
}

/// Proposes to make the costliest transform, collating and the costliest part cheaper.
void Changes::cheaper_steps() {
  struct Words {
    Bottleneck group;
    const char *id, *how, *action;
  };
  for (const Words& words :
       {Words{Bottleneck::transforms, "cheaper_transform",
              "use a native or fused implementation, or do less work in it",
              "in the file of transforms, or in its code"},
        Words{Bottleneck::collate, "cheaper_collate",
              "stack samples of one shape with one copy of each, without loops over their elements",
              "in the code that collates"},
        Words{Bottleneck::part, "cheaper_part", "use a faster library, or do less work in it",
              "in its code"}}) {
    const auto step = costliest(words.group);
    if (!step) continue;
    Change change = without(*step);
    change.id = words.id;
    change.description = "make '" + change.step + "' cheaper: " + words.how;
    change.action = words.action;
    add(std::move(change));
  }
}

/// Whether more cores make a loader with many workers faster. They do not if its samples wait, for
/// example for storage: then more workers are sufficient.
bool Changes::lacks_cores(unsigned needed) const {
  PipelineModel crowded = now_;
  crowded.set_workers(std::max(now_.workers, kMostThreads));
  PipelineModel roomy = crowded;
  roomy.capacity.cores = std::max<double>(roomy.capacity.cores, needed);
  return simulated_step_s(crowded) >= kLeastGain * simulated_step_s(roomy);
}

/// Proposes as many cores as the input needs, with a worker for each.
void Changes::cores() {
  const auto ceiling = level_rate(observed_, kDeviceLevel);
  if (!ceiling || ceiling->value <= 0) return;
  const auto needed =
      static_cast<unsigned>(std::ceil(cores_needed(now_, ceiling->value, situation_.cores)));
  if (needed <= situation_.cores || !lacks_cores(needed)) return;
  Change change;
  change.id = "cores";
  change.effort = Effort::hardware;
  change.description = "give this device " + std::to_string(needed) + " CPU cores, not " +
                       std::to_string(situation_.cores) +
                       ": the work on its samples needs that many";
  change.action = "another machine, or fewer processes on this one; then --num-workers auto";
  change.number = needed;
  change.bottleneck = Bottleneck::transforms;
  change.is_upper_bound = true;
  change.model = [needed](PipelineModel& model) {
    if (model.workers < needed) model.set_workers(needed);
    model.capacity.cores = std::max<double>(model.capacity.cores, needed);
  };
  add(std::move(change));
}

}  // namespace slipstream
