#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "diagnosis/pipeline_model.h"
#include "slipstream/core/step_counter.h"
#include "slipstream/results/result.h"

namespace slipstream {

/// A run starves once it has waited for input for this share of the last windows but the worst, and
/// has recovered once it is no more than kFedBelow of all. In between it stays what it was.
inline constexpr double kStarvesFrom = 0.10;
inline constexpr double kFedBelow = 0.05;

struct WatchOptions {
  unsigned workers = 0;  ///< of the loader; 0: not known
  unsigned readers = 0;  ///< ReadAhead::reads
};

enum class WatchState : std::uint8_t {
  no_loader,   ///< batches come from a cache on the device: there is nothing to wait for
  warming_up,  ///< the first window of a run, or of a part of one: it is not judged
  fed,
  starving
};
std::string_view name_of(WatchState state);

/// What starts to happen, or ends, with a window.
enum class WatchEvent : std::uint8_t { none, starved, recovered };
/// "starved" or "recovered"; "" for none.
std::string_view name_of(WatchEvent event);

/// Which host steps hold the input up: those that grew most since the run was fed, where they grew
/// by a fifth of what a sample cost, or else those that cost most.
struct WatchCause {
  /// raw_reading, decode or transforms; not_enough_evidence where no sample was finished.
  Culprit group = Culprit::not_enough_evidence;
  std::string step;      ///< of the group, the one that costs (or grew) most
  double share = 0;      ///< of the time that the group's threads spent in steps
  double cpu_share = 0;  ///< CPU time over time, of the group: the rest it waits
  /// What the group takes for a sample over what it took while the run was fed; nothing where it
  /// never was.
  std::optional<double> growth;
  unsigned readers =
      0;  ///< of raw_reading by threads that only read: so many; `share`: of all time
};

/// Some steps after each other.
struct WatchWindow {
  std::uint64_t step = 0;               ///< steps done by its end, in this run
  std::uint64_t steps = 0;              ///< in it
  double elapsed_s = 0;                 ///< of the run, by its end
  double seconds = 0;                   ///< that it lasted
  double waited_s = 0;                  ///< of them, the device for input
  std::optional<double> batches_ready;  ///< mean of StepInput::filled; nothing without a loader
  std::vector<StepCounter> host;        ///< what the host steps did meanwhile
  std::optional<double> workers_busy;   ///< share of their time in steps, where they are known
  WatchState state = WatchState::warming_up;  ///< by its end
  WatchEvent event = WatchEvent::none;
  std::optional<WatchCause> cause;  ///< while the run starves, by the last window that waited
  std::string message;              ///< of the event, a sentence, as printable() gives it

  /// NaN for less than 10 ms: the last steps of a run are all told at once.
  double steps_per_second() const;
  double samples_per_second(const StepCounter& step) const;
  double input_wait_share() const;
};

/// Since the watch was made, over all runs.
struct WatchTotals {
  std::uint64_t steps = 0;
  double seconds = 0;
  double waited_s = 0;
  double judged_s = 0;   ///< all but the first window of a run or part, and runs without a loader
  double starved_s = 0;  ///< in windows at whose end the run starved
  std::uint64_t starvations = 0;
  std::vector<StepCounter> host;
};

/// Says when a run starts to starve, why, and when it recovers, from what Progress tells: depths of
/// the queue, waits and counters. A window ends with the first step after 1 s and 4 steps, or after
/// 10 s. The last five windows are judged together, and two of them must have waited: one long wait
/// (a checkpoint, a reshuffle) is not starving. Runs and parts of runs may follow each other.
/// Memory does not grow with the steps. Knows no time but Progress::elapsed_s. Not thread-safe.
class StarvationWatch {
 public:
  explicit StarvationWatch(const WatchOptions& options = {});

  /// To be called each step. Returns the window that ended, until the next call; mostly nullptr.
  const WatchWindow* update(const Progress& progress);
  /// Ends the last window, however short; nullptr where no step was told since. Where the run was
  /// ended early, its counters are those of at most 0.25 s before.
  const WatchWindow* finish();
  const WatchTotals& totals() const { return totals_; }

 private:
  bool begins_anew(const Progress& progress) const;
  void begin(const Progress& progress);
  void take(const Progress& progress);
  bool is_full() const;
  void close(bool is_whole);
  void take_costs();
  void judge();
  void learn_fed_costs();
  void add_to_totals();

  WatchOptions options_;
  WatchTotals totals_;
  WatchWindow window_;               ///< the one that ended last
  std::deque<WatchWindow> recent_;   ///< that are judged
  std::vector<double> fed_costs_;    ///< of a sample in each host step, while fed
  std::optional<WatchCause> cause_;  ///< by the last window that waited
  std::vector<StepCounter> counted_, counted_before_;
  double next_count_s_ = 0;
  double part_began_s_ = 0;
  std::uint64_t step_ = 0, first_step_ = 0;  ///< the last told; those before the window
  double elapsed_s_ = 0, began_s_ = 0;
  double blocked_s_ = 0, blocked_before_s_ = 0;
  double busy_s_ = 0, busy_before_s_ = 0;
  std::uint64_t batches_ready_ = 0;  ///< summed over the window's steps
  bool has_loader_ = false;
  bool is_first_window_ = true;
  bool is_starving_ = false;
  std::uint64_t steps_before_ = 0;  ///< it began to starve, of all runs
  double seconds_before_ = 0;
};

}  // namespace slipstream
