#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "doctor/model_parts.h"

namespace slipstream {
namespace {

/// If the rate is below this share of what the costs of one worker allow, workers slow each other
/// down.
constexpr double kContended = 0.92;
/// A step is memory-bound if its CPU time grows by this factor more than shared cores explain.
constexpr double kMemoryGrowth = 1.2;
constexpr double kMostOfIt = 0.5;  ///< a step's share of the growth that makes it the cause
/// A step is compared with the other steps only if they have at least this share of the CPU time.
constexpr double kEnoughToTell = 0.05;
/// Workers that wait for a lock leave cores idle. If they use at least this share of the cores,
/// they may as well wait for a core.
constexpr double kBusyCores = 0.85;
/// The same for worker processes, which rarely share a lock.
constexpr double kBusyCoresOfProcesses = 0.5;
constexpr std::size_t kBlocks = 16;  ///< blocks of samples, whose means give an interval
constexpr int kBisections = 12;
constexpr double kMostNoise = 0.2;  ///< largest error of a rate that its interval may excuse
constexpr double kUntold = 0.5;     ///< half of the interval / value that makes a rate useless
constexpr double kSurest = 0.01;    ///< smallest assumed half of the interval / value
constexpr double kFed = 1.03;       ///< a step's time / the line's time, if the loader keeps up
constexpr std::uint64_t kSeeds = 3;

PipelineModel::Step make_step(const HostStepCost& cost) {
  PipelineModel::Step step;
  step.name = cost.name;
  step.group = cost.group;
  for (std::size_t i = 0; i < cost.wall_s.size(); ++i) {
    // The two clocks are read one after the other, so the CPU time may seem longer than the wall
    // time.
    const float working = std::min(cost.cpu_s[i], cost.wall_s[i]);
    step.working_s.push_back(working);
    step.waiting_s.push_back(cost.wall_s[i] - working);
  }
  if (step.working_s.empty()) step.working_s = step.waiting_s = {0.0F};
  return step;
}

/// Adds the time that a worker spends between the steps to the last step.
void add_overhead(const Observations& observed, PipelineModel& model) {
  const double simulated = drained_rate(model, 1);
  const double measured = observed.rate_of_one_worker.value;
  if (simulated <= 0 || measured <= 0 || measured >= simulated) return;
  const auto more = static_cast<float>(1 / measured - 1 / simulated);
  for (float& working : model.steps.back().working_s) working += more;
}

/// Finds the value in [low, high] at which the decreasing function rate_at() returns `measured`.
template <typename Rate>
double matched(double low, double high, double measured, const Rate& rate_at) {
  for (int i = 0; i < kBisections; ++i) {
    const double middle = (low + high) / 2;
    (rate_at(middle) > measured ? low : high) = middle;
  }
  return (low + high) / 2;
}

/// A step's part of the seconds that a sample takes longer with all workers than with one.
struct Growth {
  std::size_t step = 0;
  double working_s = 0;  ///< CPU time beyond the growth that the other steps also have
  double waiting_s = 0;  ///< waiting beyond that of the other steps per second of CPU time
};

double longer_wait_s(const HostStepCost& cost) {
  const double alone_s = compute_mean(cost.wall_s) - compute_mean(cost.cpu_s);
  return std::max(0.0, cost.wall_of_all_s - cost.cpu_of_all_s - alone_s);
}

/// Returns the growth of each step, and the total growth. If the CPU times of all steps grow by the
/// same factor, or all wait longer in proportion to their CPU time, the cores are shared or slower,
/// and no step is the cause. This common growth is therefore subtracted.
std::pair<std::vector<Growth>, double> find_growth(const Observations& observed,
                                                   const PipelineModel& model) {
  const double running = std::min(model.workers, observed.situation.cores);
  const double sharing = std::max(1.0, running / model.capacity.cores);
  double alone_s = 0, together_s = 0, waits_s = 0;
  for (const HostStepCost& cost : observed.host) {
    alone_s += compute_mean(cost.cpu_s);
    together_s += cost.cpu_of_all_s;
    waits_s += longer_wait_s(cost);
  }
  std::pair<std::vector<Growth>, double> growth;
  for (std::size_t i = 0; i < observed.host.size(); ++i) {
    const HostStepCost& cost = observed.host[i];
    const double cpu = compute_mean(cost.cpu_s);
    const double others = alone_s - cpu;
    const bool is_distinct = others > kEnoughToTell * alone_s;
    const double common =
        is_distinct ? std::max(sharing, (together_s - cost.cpu_of_all_s) / others) : sharing;
    const double for_cores = is_distinct ? (waits_s - longer_wait_s(cost)) / others * cpu : 0;
    const double working =
        cost.cpu_of_all_s > kMemoryGrowth * common * cpu ? cost.cpu_of_all_s - common * cpu : 0;
    const double waiting = std::max(0.0, longer_wait_s(cost) - for_cores);
    growth.first.push_back({i, working, waiting});
    growth.second += std::max(0.0, cost.wall_of_all_s - compute_mean(cost.wall_s));
  }
  return growth;
}

/// Returns the mean with its interval. Neighboring samples are not independent, so the interval is
/// computed from the means of blocks.
Measured mean_of_blocks(const std::vector<float>& values) {
  const std::size_t blocks = std::min(kBlocks, values.size());
  std::vector<double> means;
  for (std::size_t i = 0; i < blocks; ++i) {
    const auto from = static_cast<std::ptrdiff_t>(i * values.size() / blocks);
    const auto to = static_cast<std::ptrdiff_t>((i + 1) * values.size() / blocks);
    means.push_back(compute_mean({values.begin() + from, values.begin() + to}));
  }
  if (means.empty()) return {0, 0, 0, "s", 0};
  return mean_interval(means, "s");
}

/// Whether a sample certainly waits longer in this step with all workers than with one.
bool waits_longer(const HostStepCost& cost) {
  std::vector<float> alone_s;
  for (std::size_t i = 0; i < cost.wall_s.size(); ++i)
    alone_s.push_back(std::max(0.0F, cost.wall_s[i] - cost.cpu_s[i]));
  const Measured alone = mean_of_blocks(alone_s);
  const Measured together = mean_of_blocks(cost.waiting_of_all_s);
  return alone.n > 0 && together.n > 0 && together.low > alone.high;
}

/// Whether the workers leave cores idle while all of them run.
bool leaves_cores_idle(const Observations& observed, const PipelineModel& model) {
  double cpu_s = 0;
  for (const HostStepCost& cost : observed.host) cpu_s += cost.cpu_of_all_s;
  const double available = std::min<double>(model.workers, model.capacity.cores);
  const double busy = observed.situation.has_worker_processes ? kBusyCoresOfProcesses : kBusyCores;
  return cpu_s * observed.rate_of_all_workers.value < busy * available;
}

/// Finds the step in which workers wait for each other, if costs alone do not explain their rate.
void fit_contention(const Observations& observed, PipelineModel& model) {
  const double measured = observed.rate_of_all_workers.value;
  const auto whole = level_rate(observed, kWholeLevel);
  const double trained = whole ? whole->low * static_cast<double>(model.batch_size) : 0;
  // Contention is assumed only if even the highest rate that the measurements allow is lower than
  // the lowest that the costs explain.
  const double surely = std::max({measured, observed.rate_of_all_workers.high, trained});
  const Measured& one = observed.rate_of_one_worker;
  const double lowest = one.value > 0 ? std::clamp(one.low / one.value, 0.0, 1.0) : 1;
  const double explained = lowest * drained_rate(model, model.workers);
  if (measured <= 0 || explained * kContended <= surely) return;
  const auto [steps, whole_s] = find_growth(observed, model);
  const auto by_working = [](const Growth& a, const Growth& b) {
    return a.working_s < b.working_s;
  };
  const auto by_waiting = [](const Growth& a, const Growth& b) {
    return a.waiting_s < b.waiting_s;
  };
  const Growth memory = *std::max_element(steps.begin(), steps.end(), by_working);
  const Growth lock = *std::max_element(steps.begin(), steps.end(), by_waiting);
  if (memory.working_s > kMostOfIt * whole_s) {
    model.steps[memory.step].is_memory_bound = true;
    // matched() needs a rate that falls with the tried value, so the sign is changed twice.
    model.capacity.memory_streams = matched(-static_cast<double>(model.workers), -0.25, measured,
                                            [&](double less) {
                                              PipelineModel tried = model;
                                              tried.capacity.memory_streams = -less;
                                              return drained_rate(tried, model.workers);
                                            }) *
                                    -1;
    return;
  }
  if (lock.waiting_s <= kMostOfIt * whole_s) return;
  if (!waits_longer(observed.host[lock.step]) || !leaves_cores_idle(observed, model)) return;
  model.steps[lock.step].locked = matched(0, 1, measured, [&](double locked) {
    PipelineModel tried = model;
    tried.steps[lock.step].locked = locked;
    return drained_rate(tried, model.workers);
  });
  if (model.steps[lock.step].locked < 0.05) model.steps[lock.step].locked = 0;
}

/// Scales the costs of all steps alike by the difference that is still unexplained.
void fit_rest(const Observations& observed, PipelineModel& model) {
  const double measured = observed.rate_of_all_workers.value;
  const double simulated = drained_rate(model, model.workers);
  if (measured <= 0 || simulated <= 0) return;
  scale_costs(model, std::clamp(simulated / measured, 0.5, 2.0));
}

/// Scales the costs so that the simulated rate with training approaches the measured one. The
/// intervals of this rate and of the rate of the loader alone determine their weights. Does nothing
/// if the loader keeps up: the rate with training then does not depend on its costs.
void fit_whole(const Observations& observed, PipelineModel& model) {
  const auto whole = level_rate(observed, kWholeLevel);
  if (!whole || whole->value <= 0 || is_fed(model)) return;
  const double by = matched(0.5, 2, whole->value, [&](double tried) {
    PipelineModel scaled = model;
    scale_costs(scaled, tried);
    return 1 / mean_step_s(scaled);
  });
  const double alone = std::max(kSurest, half_width(observed.rate_of_all_workers));
  const double together = std::max(kSurest, half_width(*whole));
  // Each rate has a weight of 1 / its interval squared. The rate with training requires the factor
  // `by`, and the rate of the loader alone the factor 1, because the costs already match it. The
  // power below is the weighted geometric mean of both factors.
  const double weight = alone * alone / (alone * alone + together * together);
  scale_costs(model, std::pow(by, weight));
}

double seconds(const std::optional<Measured>& rate) {
  return rate && rate->value > 0 ? 1 / rate->value : 0;
}

/// Returns the number of host steps whose results the level of processed samples caches: all but
/// collating and the parts of its code.
std::size_t steps_before_collating(const Observations& observed, const PipelineModel& model) {
  for (const Level& level : observed.levels)
    if (const auto* step = model.find(level.after); level.name == kProcessedLevel && step)
      return static_cast<std::size_t>(step - model.steps.data()) + 1;
  return model.steps.size() - 1;
}

/// Sets the time of a step whose batch is ready. It is measured with cached host batches, which
/// worker processes pass to training if there are such processes. If workers that only collate keep
/// up, or there are no workers, the measured level of processed samples also shows the cost of
/// passing a batch from a worker to training, which is added.
void fit_line(const Observations& observed, PipelineModel& model) {
  const double device = seconds(level_rate(observed, kDeviceLevel));
  double line = seconds(host_rate(observed));
  if (line <= 0) line = device;
  const auto set = [&](double of) {
    model.line_working_s = std::min(of, observed.line_cpu_s);
    model.line_waiting_s = of - model.line_working_s;
  };
  set(line);
  const double processed = seconds(level_rate(observed, kProcessedLevel));
  if (processed <= line || model.steps.empty()) return;
  const PipelineModel collating = cut_after(model, steps_before_collating(observed, model));
  const double simulated = simulated_step_s(collating);
  // Otherwise workers may be the reason.
  const bool is_determined = model.slabs == 1 || simulated < 1.05 * line;
  if (is_determined && processed > simulated) set(line + processed - simulated);
}

}  // namespace

double compute_mean(const std::vector<float>& values) {
  if (values.empty()) return 0;
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double compute_variation(const std::vector<double>& values) {
  if (values.size() < 2) return 0;
  const double mean =
      std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
  double squares = 0;
  for (const double value : values) squares += (value - mean) * (value - mean);
  return mean > 0 ? std::sqrt(squares / static_cast<double>(values.size() - 1)) / mean : 0;
}

Measured scaled(const Measured& rate, double by, std::string unit) {
  return {rate.value * by, rate.low * by, rate.high * by, std::move(unit), rate.n};
}

Measured seconds_per_event(const Measured& rate) {
  return {1 / rate.value, 1 / rate.high, rate.low > 0 ? 1 / rate.low : INFINITY, "s", rate.n};
}

double half_width(const Measured& measured) {
  return measured.value > 0 ? (measured.high - measured.low) / 2 / measured.value : 1;
}

double cores_needed(const PipelineModel& model, double ceiling, unsigned cores) {
  double a_sample = 0;
  for (const PipelineModel::Step& step : model.steps) a_sample += compute_mean(step.working_s);
  const double of_loader = a_sample * static_cast<double>(model.batch_size) * ceiling;
  const double of_line = model.line_working_s * ceiling;
  return of_loader + of_line <= cores ? of_loader : of_loader + of_line;
}

std::vector<double> simulated_steps_s(const PipelineModel& model) {
  std::vector<double> steps_s;
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed)
    steps_s.push_back(simulated_step_s(model, seed));
  return steps_s;
}

double mean_step_s(const PipelineModel& model) {
  const std::vector<double> steps_s = simulated_steps_s(model);
  return std::accumulate(steps_s.begin(), steps_s.end(), 0.0) / static_cast<double>(steps_s.size());
}

bool is_fed(const PipelineModel& model) { return is_fed(model, mean_step_s(model)); }

bool is_fed(const PipelineModel& model, double step_s) {
  return step_s <= kFed * (model.line_waiting_s + model.line_working_s);
}

PipelineModel fitted_model(const Observations& observed) {
  PipelineModel model;
  model.workers = std::max(1U, observed.workers);
  model.batch_size = std::max<std::size_t>(1, observed.batch_size);
  // Without workers there is one slab: no thread fills the next batch while this one is in use.
  model.slabs = observed.workers == 0 ? 1 : std::max<std::size_t>(2, observed.slabs);
  model.slabs_per_worker = observed.slabs_per_worker;
  model.capacity = observed.capacity;
  for (const HostStepCost& cost : observed.host) model.steps.push_back(make_step(cost));
  if (!model.steps.empty()) {
    // The order matters, because each fit explains the difference that the earlier fits leave: the
    // rate of one worker is first, then the rate of all workers, and the rate with training last.
    add_overhead(observed, model);
    model.readers = observed.situation.plan.schedule.loader.read_ahead.reads;
    fit_contention(observed, model);
    fit_rest(observed, model);
  }
  fit_line(observed, model);
  fit_whole(observed, model);
  return model;
}

PipelineModel cut_after(PipelineModel model, std::size_t steps) {
  for (std::size_t i = 0; i < steps; ++i) make_free(model.steps[i]);
  return model;
}

double drained_rate(PipelineModel model, unsigned workers) {
  model.workers = workers;
  model.line_waiting_s = model.line_working_s = 0;
  const double step_s = simulated_step_s(model);
  return step_s > 0 ? static_cast<double>(model.batch_size) / step_s : 0;
}

void scale_costs(PipelineModel& model, double by) {
  for (PipelineModel::Step& step : model.steps) {
    for (float& value : step.waiting_s) value *= static_cast<float>(by);
    for (float& value : step.working_s) value *= static_cast<float>(by);
  }
}

void make_free(PipelineModel::Step& step) {
  step.waiting_s = step.working_s = {0.0F};
  step.locked = 0;
  step.is_memory_bound = false;
}

std::optional<Measured> level_rate(const Observations& observed, std::string_view name) {
  for (const Level& level : observed.levels)
    if (level.name == name) return level.with_training;
  return std::nullopt;
}

std::string_view host_level(const Observations& observed) {
  if (!observed.situation.on_gpu) return kHostLevel;
  return observed.situation.plan.schedule.loader.pin_memory ? kPinnedLevel : kPageableLevel;
}

bool passes_batches(const Observations& observed) {
  return observed.situation.has_worker_processes &&
         level_rate(observed, kCollatedLevel).has_value();
}

std::optional<Measured> host_rate(const Observations& observed) {
  std::optional<Measured> host = level_rate(observed, host_level(observed));
  if (!passes_batches(observed)) return host;
  const std::optional<Measured> passed = level_rate(observed, kCollatedLevel);
  return !host || passed->value < host->value ? passed : host;
}

double compute_model_error(const Observations& observed, const PipelineModel& model) {
  double squares = 0, count = 0;
  for (const Level& level : observed.levels) {
    if (!level.with_training || level.with_training->value <= 0) continue;
    if (is_unordered(observed, level)) continue;
    std::size_t behind = 0;
    if (!level.after.empty()) {
      const PipelineModel::Step* step = model.find(level.after);
      if (step == nullptr || step == &model.steps.back()) continue;
      behind = static_cast<std::size_t>(step - model.steps.data()) + 1;
    }
    const double simulated = simulated_step_s(cut_after(model, behind));
    const Measured& rate = *level.with_training;
    const double half = half_width(rate);
    if (half > kUntold) continue;
    const double noise = std::min(kMostNoise, half);
    // Only the part of the difference that noise does not explain is an error of the model.
    const double error = std::max(0.0, std::abs(simulated * rate.value - 1) - noise);
    squares += error * error;
    ++count;
  }
  return count > 0 ? std::sqrt(squares / count) : 0;
}

}  // namespace slipstream
