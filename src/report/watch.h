#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "slipstream/core/step_counter.h"
#include "slipstream/engine/result.h"

namespace slipstream {

struct WatchOptions {
  unsigned workers = 0;      ///< number of the loader's workers; 0 if unknown
  bool read_ahead = false;   ///< true if separate threads, which do not count as workers, read
  bool counts_ready = true;  ///< false if the number of ready batches is not known
  /// What to do if the run starves, at the end of the message; "" for nothing.
  std::string remedy = "; run 'slipstream doctor' to find the cause";
};

/// A window of consecutive steps, and its counters.
struct WatchWindow {
  std::uint64_t step = 0;   ///< steps done by its end, in this run
  std::uint64_t steps = 0;  ///< number of steps in it
  double elapsed_s = 0;     ///< time from the start of the run to the window's end
  double seconds = 0;       ///< how long it lasted
  double waited_s = 0;      ///< time that the device waited for input
  /// Mean of StepInput::filled; empty without a loader, or if it is not known.
  std::optional<double> batches_ready = {};
  std::vector<StepCounter> host = {};       ///< counters of the loader's host steps
  std::optional<double> workers_busy = {};  ///< share of the workers' time spent in host steps
  /// State at its end: "no_loader" (batches come from a cache on the device), "warming_up" (the
  /// first window of a run, or of a part of one, which is not judged), "fed" or "starving".
  std::string_view state = "warming_up";
  std::string_view event = "";  ///< "starved" or "recovered"; "" for no event
  std::string message = {};     ///< the event as a sentence

  /// Returns false for windows below 10 ms, because the last steps of a run are reported all at
  /// once.
  bool has_rates() const { return seconds >= 0.01; }
  double input_wait_share() const { return seconds > 0 ? waited_s / seconds : 0; }
};

/// Sums over all parts of a run.
struct WatchTotals {
  std::uint64_t steps = 0;
  double seconds = 0;
  double waited_s = 0;
  double judged_s = 0;   ///< total time of the windows that were judged
  double starved_s = 0;  ///< total time of the windows that ended with the run starving
  std::uint64_t starvations = 0;
  std::vector<StepCounter> host;
};

/// Adds counters by name, because the parts of a run may have different host steps.
void add_by_name(std::vector<StepCounter>& total, const std::vector<StepCounter>& more);

/// Reports when a run starts to starve, which means that the device repeatedly waits for input, and
/// when it recovers (docs/watch.md). It names no cause: counters of a running loader do not
/// separate the cost of a step from waits for locks, memory and cores. The only clock is
/// Progress::elapsed_s. Not thread-safe.
class StarvationWatch {
 public:
  explicit StarvationWatch(const WatchOptions& options = {}) : options_(options) {}

  /// Call it for each step. Returns the window that ended, valid until the next call, or nullptr.
  const WatchWindow* update(const Progress& progress);
  /// Ends the last window, however short. Returns nullptr if no step followed the last window. If
  /// the run was ended early, the counters are at most 0.25 s old.
  const WatchWindow* finish();

  const WatchTotals& totals() const { return totals_; }
  /// State at the end of the last window, see WatchWindow::state.
  std::string_view state() const { return window_.state; }

 private:
  void begin_part(const Progress& progress);
  bool is_full() const;
  void close(bool is_complete);
  void judge();

  WatchOptions options_;
  WatchTotals totals_;
  WatchWindow window_;              ///< the last window that ended
  std::deque<WatchWindow> recent_;  ///< the windows that are judged together
  Progress last_, begin_;  ///< progress of the last step, and of the step before the window
  std::vector<StepCounter> counted_, counted_before_;  ///< host steps at these two times
  double next_count_s_ = 0;
  std::uint64_t batches_ready_ = 0;  ///< summed over the window's steps
  bool is_first_window_ = true, is_starving_ = false;
  std::uint64_t steps_before_ = 0;  ///< steps of all parts when the run began to starve
  double seconds_before_ = 0;
};

}  // namespace slipstream
