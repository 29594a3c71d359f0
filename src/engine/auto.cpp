#include <algorithm>

#include "engine/auto_choice.h"
#include "engine/continued.h"
#include "engine/state_guard.h"
#include "slipstream/engine/trainer.h"

namespace slipstream {
namespace {

constexpr std::uint64_t kFewestSteps = 4;
/// Graphs are recorded after three batches, once for each slot.
constexpr std::uint64_t kFewestStepsWithGraphs = 12;
constexpr std::uint64_t kMostSteps = 30;
constexpr int kTurns = 2;

double seconds(const Measured& rate) { return rate.value > 0 ? 1 / rate.value : 0; }

using LaneRates = std::vector<std::pair<std::string, Measured>>;

class Auto {
 public:
  Auto(Trainer& trainer, const RunOptions& options) : trainer_(trainer), options_(options) {}

  /// Trains `steps` real steps of the run under `plan` and adds the steady ones to `rate`.
  void train(const Plan& plan, std::uint64_t steps, SteadyRate* rate) {
    if (stopped_ || steps == 0) return;
    RunOptions part = options_;
    part.steps = steps;
    part.digest = false;
    if (options_.progress)
      part.progress = [this, steps, done = total_.steps, wall = total_.wall_s](Progress progress) {
        progress.step += done;
        progress.steps = options_.steps;
        progress.elapsed_s += wall;
        progress.part_began_s = wall;
        progress.part_ends = done + steps;
        options_.progress(progress);
      };
    RunResult result = trainer_.run(plan, part);
    stopped_ = result.interrupted;
    if (rate != nullptr) rate->add(result, trainer_.pipeline().options().batch_size);
    started_ ? continue_with(total_, std::move(result)) : std::swap(total_, result);
    started_ = true;
  }

  /// Measures each lane of `plan` alone. Returns no rates if the run was stopped during the
  /// measurement.
  LaneRates measure_alone(const Plan& plan, std::uint64_t steps) {
    const auto stop = [this] {
      stopped_ = stopped_ || (options_.stop && options_.stop());
      return stopped_;
    };
    std::function<void(const Progress&)> progress;
    if (options_.progress)
      progress = [this](const Progress& measured) {
        Progress report;
        report.step = total_.steps;
        report.steps = options_.steps;
        report.elapsed_s = report.part_began_s = total_.wall_s;
        report.loss = total_.losses.back();
        report.measuring = measured.measuring;
        options_.progress(report);
      };
    LaneRates alone = measure_lanes_alone(trainer_, plan, steps, stop, progress);
    if (!stopped_) return alone;
    total_.interrupted = true;
    return {};
  }

  std::uint64_t left() const { return stopped_ ? 0 : options_.steps - total_.steps; }
  /// Returns the result of all trained steps, with the digest if it was requested.
  RunResult result() {
    if (options_.digest) total_.digest = trainer_.digest();
    return std::move(total_);
  }
  const RunResult& so_far() const { return total_; }

 private:
  Trainer& trainer_;
  const RunOptions& options_;
  RunResult total_;
  bool started_ = false;
  bool stopped_ = false;
};

}  // namespace

Measured overlap_efficiency(const Measured& serial, const Measured& pipelined,
                            const Measured& bound) {
  const auto of = [](double s, double p, double m) {
    // The shortest possible time of a step is that of the slowest lane alone.
    const double gain = 1 / s - 1 / m;
    return gain > 0 ? (1 / s - 1 / p) / gain : 0;
  };
  Measured result{of(serial.value, pipelined.value, bound.value), 0, 0, "1", pipelined.n};
  result.low = result.high = result.value;
  // The efficiency may rise or fall with each rate, so its interval is taken from all combinations
  // of the ends of the three intervals.
  for (double s : {serial.low, serial.high})
    for (double p : {pipelined.low, pipelined.high})
      for (double m : {bound.low, bound.high}) {
        if (s <= 0 || p <= 0 || m <= 0) continue;
        result.low = std::min(result.low, of(s, p, m));
        result.high = std::max(result.high, of(s, p, m));
      }
  return result;
}

LaneRates measure_lanes_alone(Trainer& trainer, const Plan& plan, std::uint64_t steps,
                              const std::function<bool()>& stop,
                              const std::function<void(const Progress&)>& progress) {
  StateGuard guard(trainer);
  LaneRates alone;
  // Each lane starts from a cached result of the lane before it, so it is measured without waiting
  // for any other work.
  std::string after = "collate";
  for (const LanePlan& lane : plan.schedule.lanes) {
    RunOptions options;
    options.steps = steps;
    options.cut = Cut{after, 1};
    options.last_step = lane.steps.back();
    options.digest = false;
    options.stop = stop;
    if (progress)
      options.progress = [&](Progress measured) {
        measured.measuring = lane.steps.back();
        progress(measured);
      };
    const RunResult result = trainer.run(plan, options);
    if (result.interrupted) break;
    alone.emplace_back(lane.steps.back(), result.steps_per_second);
    after = lane.steps.back();
  }
  guard.restore_and_release();
  return alone;
}

namespace {

/// Returns the number of steps in a turn; 0 if there are too few steps to measure `plans` plans.
std::uint64_t turn_length(std::uint64_t steps, std::uint64_t plans) {
  const bool has_graph = plans > 2;
  // The turns together take at most half of the run's steps. The first turn of a plan with graphs
  // only records them.
  const std::uint64_t turns = plans * kTurns + (has_graph ? 1 : 0);
  const std::uint64_t length = std::min(kMostSteps, steps / (2 * turns));
  return length < (has_graph ? kFewestStepsWithGraphs : kFewestSteps) ? 0 : length;
}

/// Trains the turns of all plans, and returns the choice. `graph`: nullptr if it is not measured.
AutoChoice measure_plans(Auto& run, const Plan& serial, const Plan& pipelined, const Plan* graph,
                         std::uint64_t block) {
  SteadyRate serial_rate, pipelined_rate, graph_rate;
  if (graph != nullptr) run.train(*graph, block, nullptr);
  for (int turn = 0; turn < kTurns; ++turn) {
    run.train(serial, block, &serial_rate);
    run.train(pipelined, block, &pipelined_rate);
    if (graph != nullptr) run.train(*graph, block, &graph_rate);
  }
  if (run.left() == 0)
    return {run.so_far().plan.schedule.mode, "stopped before all plans were measured", {}, {}};
  const AutoChoice choice = choose_mode(serial_rate, pipelined_rate);
  return graph != nullptr ? with_graph(choice, graph_rate) : choice;
}

}  // namespace

AutoResult run_auto(Trainer& trainer, const Plan& serial, const Plan& pipelined,
                    const RunOptions& options, const std::optional<Plan>& graph) {
  Auto run(trainer, options);
  AutoChoice choice{"serial", "too few steps to measure both", {}, {}};
  const bool has_graph = graph && turn_length(options.steps, 3) > 0;
  const std::uint64_t block = turn_length(options.steps, has_graph ? 3 : 2);
  LaneRates alone;
  if (block > 0) {
    choice = measure_plans(run, serial, pipelined, has_graph ? &*graph : nullptr, block);
    if (run.left() == 0) return {choice, run.result()};
    alone = run.measure_alone(pipelined, block);
    if (run.left() == 0) {
      choice.reason = "stopped before a plan was chosen: " + choice.reason;
      choice.chosen = run.so_far().plan.schedule.mode;
    }
  }
  if (choice.chosen != "graph") trainer.release_graphs();
  run.train(choice.chosen == "serial"  ? serial
            : choice.chosen == "graph" ? *graph
                                       : pipelined,
            run.left(), nullptr);
  RunResult result = run.result();
  if (!alone.empty() && choice.serial.n > 0 && choice.pipelined.n > 0) {
    const auto slowest = std::min_element(
        alone.begin(), alone.end(),
        [](const auto& a, const auto& b) { return seconds(a.second) > seconds(b.second); });
    result.overlap = Overlap{overlap_efficiency(choice.serial, choice.pipelined, slowest->second),
                             choice.serial, alone};
  }
  return {choice, std::move(result)};
}

}  // namespace slipstream
