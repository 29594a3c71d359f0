#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "report/watch.h"

namespace slipstream {

/// Tells a watch of steps as a run would.
class WatchFeed {
 public:
  explicit WatchFeed(const WatchOptions& options = {}) : watch(options) {}

  /// One step, and what the loader did for it.
  struct Step {
    double seconds = 0.1;
    double waited_s = 0;
    std::size_t filled = 4;
    std::optional<double> busy_s = {};  ///< nothing: while it does not wait
    /// Of each host step, for a sample: wall time and CPU time, ms.
    std::vector<std::pair<double, double>> costs_ms = {{1, 1}, {2, 2}, {4, 4}, {0.5, 0.5}};
  };

  void tell(std::uint64_t steps, const Step& step) {
    for (std::uint64_t i = 0; i < steps; ++i) tell(step);
  }

  void tell(const Step& step) {
    ++progress.step;
    progress.elapsed_s += step.seconds;
    progress.blocked_s += step.waited_s;
    progress.busy_s += step.busy_s.value_or(step.seconds - step.waited_s);
    if (has_loader) {
      progress.input = StepInput{step.filled, step.waited_s};
      progress.host_counters = [this] {
        ++times_counted;
        return counters;
      };
    }
    for (std::size_t i = 0; i < counters.size(); ++i) {
      counters[i].calls += kSamples;
      counters[i].wall_s += 1e-3 * kSamples * step.costs_ms[i].first;
      counters[i].cpu_s += 1e-3 * kSamples * step.costs_ms[i].second;
    }
    keep(watch.update(progress));
  }

  void finish() { keep(watch.finish()); }

  /// What is cumulative begins anew; `is_part`: of the same run.
  void begin_anew(bool is_part) {
    progress.part_began_s = is_part ? progress.elapsed_s : 0;
    if (!is_part) progress.elapsed_s = 0;
    if (!is_part) progress.step = 0;
    progress.blocked_s = progress.busy_s = 0;
    for (StepCounter& counter : counters) counter = {.name = counter.name};
  }

  std::vector<std::string> messages() const {
    std::vector<std::string> all;
    for (const WatchWindow& window : windows)
      if (!window.message.empty()) all.push_back(window.message);
    return all;
  }

  static constexpr std::uint64_t kSamples = 8;
  StarvationWatch watch;
  Progress progress;
  std::vector<StepCounter> counters = {
      {.name = "read"}, {.name = "decode"}, {.name = "blur"}, {.name = "collate"}};
  std::vector<WatchWindow> windows;
  std::size_t times_counted = 0;
  bool has_loader = true;
  bool keeps_windows = true;

 private:
  void keep(const WatchWindow* window) {
    if (window != nullptr && keeps_windows) windows.push_back(*window);
  }
};

inline const WatchFeed::Step kFed = {};
inline const WatchFeed::Step kStarved = {.seconds = 0.2, .waited_s = 0.1, .filled = 0};

/// `step`, in which a sample's decoding takes `ms`: time and CPU time.
inline WatchFeed::Step with_decode(WatchFeed::Step step, const std::pair<double, double>& ms) {
  step.costs_ms[1] = ms;
  return step;
}

}  // namespace slipstream
