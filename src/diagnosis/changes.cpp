#include <algorithm>
#include <cmath>

#include "diagnosis/model_parts.h"

namespace slipstream {
namespace {

constexpr double kEnough = 0.98;  ///< of the best rate: more workers or readers are not worth it
constexpr double kShareOfMemory = 0.5;  ///< of what is free, for a cache
constexpr double kWaits = 0.5;          ///< of a step's time: it waits rather than works
constexpr unsigned kMostThreads = 64;

double cost_of(const PipelineModel::Step& step) {
  return mean_of(step.waiting_s) + mean_of(step.working_s);
}

void set_cost(PipelineModel::Step& step, double working_s) {
  make_free(step);
  step.working_s = {static_cast<float>(working_s)};
}

/// The fewest of 1 ... most, doubled, for which what `set` makes of the model is fast enough.
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
  return fewest(now, kMostThreads, [](PipelineModel& model, unsigned n) { model.workers = n; });
}

namespace {

class Changes {
 public:
  Changes(const Observations& observed, const PipelineModel& now, double model_error)
      : observed_(observed),
        situation_(observed.situation),
        now_(now),
        now_step_s_(mean_step_s(now)),
        error_(model_error) {}

  std::vector<Change> all() {
    if (!now_.steps.empty()) {
      workers();
      cache();
      read_ahead();
      device_transforms();
      crop_first();
      convert();
      contention();
      costliest_transform();
      cores();
    }
    pinning();
    pipelining();
    unused_fields();
    feature_cache();
    std::erase_if(found_, [](const Change& change) { return change.gain.value < kWorthSaying; });
    std::stable_sort(found_.begin(), found_.end(),
                     [](const Change& a, const Change& b) { return a.gain.value > b.gain.value; });
    return std::move(found_);
  }

 private:
  void add(Change change) {
    PipelineModel then = now_;
    change.model(then);
    if (now_step_s_ < kWorthSaying * mean_step_s(then)) return;
    change.predicted = predicted_rate(observed_, now_, then, error_);
    if (change.predicted.n == 0) return;
    change.gain = ratio(change.predicted, *rung_rate(observed_, kWholeRung));
    found_.push_back(std::move(change));
  }

  /// Half of them make more than all: the simulation does not know what they do to each other.
  bool fewer_workers() {
    const Measured& half = observed_.drained_of_half;
    const unsigned n = now_.workers / 2;
    if (n == 0 || half.n == 0 || half.low < kWorthSaying * observed_.drained_of_all.high)
      return false;
    Change change;
    change.id = "workers";
    change.what = "use " + std::to_string(n) + " workers: more get in each other's way";
    change.how = "--workers " + std::to_string(n);
    change.apply = [n](Plan& plan) { plan.schedule.loader.workers = n; };
    change.model = [n, by = drained_rate(now_, n) / half.value](PipelineModel& model) {
      model.workers = n;
      scale_costs(model, by);
    };
    add(std::move(change));
    return true;
  }

  void workers() {
    if (fewer_workers()) return;
    const unsigned n = enough_workers(now_);
    if (n == now_.workers) return;
    Change change;
    change.id = "workers";
    change.what = "use " + std::to_string(n) + " workers";
    change.how = "--workers " + std::to_string(n);
    change.apply = [n](Plan& plan) { plan.schedule.loader.workers = n; };
    change.model = [n](PipelineModel& model) { model.workers = n; };
    add(std::move(change));
  }

  /// Behind the step whose samples fit and which saves most: none behind a random one.
  void cache() {
    const PipelineModel::Step* last = now_.find(situation_.last_fixed_step);
    if (last == nullptr || situation_.samples == 0) return;
    const double room = kShareOfMemory * static_cast<double>(situation_.free_memory_bytes);
    for (auto i = static_cast<std::size_t>(last - now_.steps.data()) + 1; i-- > 0;) {
      const double each = observed_.host[i].bytes + 128;
      const double bytes = each * static_cast<double>(situation_.samples);
      if (bytes > room) continue;
      const std::string& after = now_.steps[i].name;
      const auto size = static_cast<std::size_t>(std::ceil(bytes * 1.1));
      Change change;
      change.id = "cache";
      change.what = "keep samples in memory as '" + after + "' leaves them (" +
                    std::to_string(size >> 20) + " MiB); the first epoch fills it";
      change.how = "--cache " + after + "=" + std::to_string((size >> 20) + 1) + "M";
      change.against = now_.steps[i].group;
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

  void read_ahead() {
    const PipelineModel::Step& read = now_.steps.front();
    if (mean_of(read.waiting_s) < kWaits * cost_of(read)) return;
    const auto set = [](PipelineModel& model, unsigned n) { model.readers = n; };
    const unsigned n = fewest(now_, kMostThreads, set);
    Change change;
    change.id = "read_ahead";
    change.what = "keep " + std::to_string(n) + " reads in flight: storage makes each one wait";
    change.how = "--read-ahead " + std::to_string(n);
    change.against = Culprit::raw_reading;
    change.apply = [n](Plan& plan) { plan.schedule.loader.read_ahead.reads = n; };
    change.model = [n](PipelineModel& model) { model.readers = n; };
    add(std::move(change));
  }

  /// The model's stage then shares the device with them. On a lane of their own they overlap, but
  /// as kernels of both fill the device, only in part (docs/doctor.md).
  void device_transforms() {
    constexpr double kShown = 0.5;
    const PipelineModel::Step* from = now_.find(situation_.on_device_from);
    if (!situation_.on_gpu || from == nullptr) return;
    if (situation_.plan.schedule.loader.on_device == situation_.on_device_from) return;
    const auto first = static_cast<std::size_t>(from - now_.steps.data());
    const bool is_serial = situation_.plan.schedule.lanes.size() == 1;
    const double more = situation_.augment_s ? situation_.augment_s->value : 0;
    Change change;
    change.id = "device_transforms";
    change.what = "do the transforms from '" + from->name + "' on, on the device";
    change.how = std::string("--augment ") + (is_serial ? "gpu" : "pipelined");
    change.against = Culprit::transforms;
    change.is_bound = !situation_.augment_s;
    change.apply = [name = from->name](Plan& plan) { put_transforms_on_device(plan, name); };
    change.model = [=](PipelineModel& model) {
      for (std::size_t i = first; i + 1 < model.steps.size(); ++i) make_free(model.steps[i]);
      const double line = model.line_waiting_s + model.line_working_s;
      model.line_waiting_s += is_serial ? more : std::max(kShown * more, more - line);
    };
    add(std::move(change));
  }

  void crop_first() {
    if (!situation_.crops_late) return;
    const PipelineModel::Step* crop = now_.find(situation_.crop);
    if (crop == nullptr) return;
    const auto at = static_cast<std::size_t>(crop - now_.steps.data());
    Change change;
    change.id = "crop_first";
    change.what =
        "move '" + situation_.crop + "' ahead of the transforms that do not need more than it";
    change.how = "in the chain file, or the order of .transform(...)";
    change.against = Culprit::transforms;
    change.is_bound = true;
    change.model = [at](PipelineModel& model) {
      for (std::size_t i = 2; i < at; ++i) make_free(model.steps[i]);
    };
    add(std::move(change));
  }

  void convert() {
    if (now_.steps.size() < 2 || cost_of(now_.steps[1]) <= 0) return;
    Change change;
    change.id = "convert";
    change.what = "decode once: store the samples as arrays, or smaller ones";
    change.how = "slipstream convert --from DIR --to npy --resize N --out NEW";
    change.against = Culprit::decode;
    change.is_bound = true;
    change.model = [](PipelineModel& model) { make_free(model.steps[1]); };
    add(std::move(change));
  }

  void contention() {
    for (std::size_t i = 0; i < now_.steps.size(); ++i) {
      const PipelineModel::Step& step = now_.steps[i];
      if (step.locked <= 0 && !step.is_memory_bound) continue;
      Change change;
      const bool locks = step.locked > 0;
      change.id = locks ? "lock" : "memory_bandwidth";
      change.what = locks ? "let workers be in '" + step.name + "' at once: they wait for its lock"
                          : "let '" + step.name + "' move less memory: workers share its bandwidth";
      change.how = "in the code of '" + step.name + "'";
      change.against = locks ? Culprit::lock : Culprit::memory_bandwidth;
      change.is_bound = true;
      change.model = [i](PipelineModel& model) {
        model.steps[i].locked = 0;
        model.steps[i].is_memory_bound = false;
      };
      add(std::move(change));
    }
  }

  void costliest_transform() {
    std::size_t costliest = 0;
    for (std::size_t i = 2; i < now_.steps.size(); ++i)
      if (costliest == 0 || cost_of(now_.steps[i]) > cost_of(now_.steps[costliest])) costliest = i;
    if (costliest == 0) return;
    Change change;
    change.id = "cheaper_transform";
    change.what =
        "make '" + now_.steps[costliest].name + "' cheaper: a native or fused form, or less of it";
    change.how = "in the chain file, or in its code";
    change.against = Culprit::transforms;
    change.is_bound = true;
    change.model = [costliest](PipelineModel& model) { make_free(model.steps[costliest]); };
    add(std::move(change));
  }

  /// Whether each device step is: what was not may be the longest.
  bool is_all_measured() const {
    std::size_t steps = 0;
    for (const LanePlan& lane : situation_.plan.schedule.lanes) steps += lane.steps.size();
    return observed_.device.size() == steps;
  }

  /// With workers for all of them.
  void cores() {
    const auto ceiling = rung_rate(observed_, kDeviceRung);
    if (!ceiling || ceiling->value <= 0) return;
    const auto needed = static_cast<unsigned>(std::ceil(cores_needed(now_, ceiling->value)));
    if (needed <= situation_.cores) return;
    Change change;
    change.id = "cores";
    change.what = "give this device " + std::to_string(needed) + " CPU cores, not " +
                  std::to_string(situation_.cores) + ": its samples cost that much work";
    change.how = "another machine, or fewer processes on this one; then --workers auto";
    change.against = Culprit::transforms;
    change.is_bound = true;
    change.model = [needed](PipelineModel& model) {
      model.workers = std::max(model.workers, needed);
      model.capacity.cores = std::max<double>(model.capacity.cores, needed);
    };
    add(std::move(change));
  }

  void pinning() {
    if (!situation_.on_gpu || situation_.plan.schedule.loader.pinned) return;
    const auto pinned = rung_rate(observed_, kPinnedRung);
    const auto pageable = rung_rate(observed_, kPageableRung);
    if (!pinned || !pageable || pinned->value <= pageable->value) return;
    const double less = 1 / pageable->value - 1 / pinned->value;
    Change change;
    change.id = "pinning";
    change.what = "keep batches in page-locked memory";
    change.how = "\"pinned\": true in the plan";
    change.against = Culprit::copy;
    change.apply = [](Plan& plan) { plan.schedule.loader.pinned = true; };
    change.model = [less](PipelineModel& model) {
      model.line_waiting_s = std::max(0.0, model.line_waiting_s - less);
    };
    add(std::move(change));
  }

  /// The slowest part of the device's work then is what a step takes.
  void pipelining() {
    if (situation_.plan.schedule.lanes.size() != 1 || observed_.device.size() < 2) return;
    if (!is_all_measured()) return;
    double longest = 0, sum = 0;
    for (const DeviceCost& cost : observed_.device) {
      longest = std::max(longest, cost.seconds.value);
      sum += cost.seconds.value;
    }
    if (sum <= 0) return;
    const double by = longest / sum;
    Change change;
    change.id = "pipelining";
    change.what = "run the copy and the stages ahead of training on lanes of their own";
    change.how = "--plan pipelined";
    change.against = Culprit::copy;
    change.is_bound = true;
    change.apply = [on_gpu = situation_.on_gpu](Plan& plan) { pipeline_lanes(plan, on_gpu); };
    change.model = [by](PipelineModel& model) {
      model.line_waiting_s *= by;
      model.line_working_s *= by;
    };
    add(std::move(change));
  }

  void unused_fields() {
    if (situation_.unused_fields.empty()) return;
    std::string names;
    std::string how;
    for (const std::string& field : situation_.unused_fields) {
      names += (names.empty() ? "" : ", ") + field;
      how += (how.empty() ? "--wire " : " --wire ") + field + "=host";
    }
    Change change;
    change.id = "unused_fields";
    change.what = "leave on the host what no stage reads: " + names;
    change.how = how;
    change.against = Culprit::copy;
    change.is_bound = true;
    change.apply = [fields = situation_.unused_fields](Plan& plan) {
      for (const std::string& field : fields) plan.schedule.loader.wire[field] = Wire::host;
    };
    PipelineModel without = now_;
    take_copy_out(observed_, without);
    change.model = [waiting_s = without.line_waiting_s](PipelineModel& model) {
      model.line_waiting_s = std::min(model.line_waiting_s, waiting_s);
    };
    add(std::move(change));
  }

  /// Training alone, on what a frozen encoder makes of input that is the same in every epoch.
  void feature_cache() {
    if (!situation_.has_frozen_stage || !situation_.frozen_input_is_fixed) return;
    if (observed_.device.empty() || !is_all_measured()) return;
    const double trained_s = observed_.device.back().seconds.value;
    Change change;
    change.id = "feature_cache";
    change.what =
        "store what the frozen stages make of each sample, once, and train on that: nothing ahead "
        "of them is random";
    change.how = "in your code: run the frozen stages over the data set and train from the result";
    change.against = Culprit::gpu;
    change.is_bound = true;
    change.model = [trained_s](PipelineModel& model) {
      for (PipelineModel::Step& step : model.steps) make_free(step);
      model.line_waiting_s = std::min(model.line_waiting_s, trained_s);
    };
    add(std::move(change));
  }

  const Observations& observed_;
  const Situation& situation_;
  const PipelineModel& now_;
  double now_step_s_;
  double error_;
  std::vector<Change> found_;
};

}  // namespace

std::vector<Change> changes_for(const Observations& observed, const PipelineModel& now,
                                double model_error) {
  return Changes(observed, now, model_error).all();
}

}  // namespace slipstream
