#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "report/watch.h"
#include "slipstream/core/step_counter.h"

namespace slipstream {

/// Times of a loader's worker processes during a wait, summed over the processes.
struct WorkerTimes {
  double wall_s = 0;       ///< duration of the wait, multiplied by the number of processes
  double cpu_s = 0;        ///< CPU time of the processes
  double core_wait_s = 0;  ///< time in which they were ready to run but had no core

  void add(const WorkerTimes& other);
};

/// One call of next() of a watched loop. Times are in seconds, on one steady clock.
struct LoopWait {
  double began_s = 0;
  double ended_s = 0;
  double cpu_s = 0;  ///< CPU time of the loop's thread in the call
  /// Part of the call in which a slipstream.Pipeline waited for its loader, with the CPU time of
  /// the loop's thread in it; empty for other loaders.
  std::optional<double> loader_s = {};
  double loader_cpu_s = 0;
  /// Time, since the last call, that the device was idle between two steps; empty if no GPU is
  /// used.
  std::optional<double> idle_s = {};
  std::optional<std::size_t> ready = {};  ///< batches that were ready at the begin, if known
  /// Whether the batch was ready at the begin, so that the call only received it.
  bool was_ready = false;
  /// Whether the batch was not ready at the begin, but later ones were.
  bool is_late = false;
  std::optional<WorkerTimes> workers = {};  ///< empty if they were not read during this call
  bool gave_batch = true;                   ///< false at the end of an epoch, and after an error
};

/// Sums over a time in which a loop was watched.
struct LoopTotals {
  std::uint64_t steps = 0;  ///< batches that the loop got
  double seconds = 0;       ///< time in iterations over the loader
  double blocked_s = 0;     ///< time in next()
  double idle_s = 0;        ///< time that the device was idle between two steps
  // Parts of blocked_s.
  double first_s = 0;   ///< waiting for the first batch of an epoch
  double stages_s = 0;  ///< in next() of a slipstream.Pipeline, but not waiting for its loader
  double late_s = 0;    ///< waiting for a batch while later ones were ready
  double cpu_s = 0;     ///< in the rest, CPU time of the loop's thread, and receiving ready batches
  WorkerTimes workers;  ///< in the waits in which they were read
  bool has_workers = false;
  std::uint64_t ready = 0, ready_counted = 0;  ///< ready batches, summed over ready_counted steps
  std::vector<StepCounter> host;               ///< host steps of a slipstream.DataLoader

  void add(const LoopTotals& other);
  /// Time that the device waited for input (input_wait_s()).
  double waited_s() const;
  double input_wait_share() const { return seconds > 0 ? waited_s() / seconds : 0; }
  double steps_per_second() const { return seconds > 0 ? static_cast<double>(steps) / seconds : 0; }
  std::optional<double> batches_ready() const;
};

/// A part of the time that the device waited for input, by what it waited for.
struct WaitPart {
  std::string name;         ///< "worker_cpu"; the name of a host step, such as "decode"
  std::string description;  ///< "workers that compute"
  double share = 0;         ///< share of the time in `totals`
};

/// Divides the time that the device waited for input, largest part first. The shares sum up to
/// input_wait_share().
std::vector<WaitPart> wait_parts(const LoopTotals& totals);

/// Returns a sentence without its end: for how much of the time the device waited, and for what.
std::string describe_waits(const LoopTotals& totals);

/// Returns several lines: steps, rate, waits and their parts.
std::string loop_report(const std::string& name, const LoopTotals& totals);

/// Watches a loop that calls next() of a loader: adds up its waits, and reports when it starts to
/// starve and when it recovers, as StarvationWatch does. Not thread-safe.
class LoopWatch {
 public:
  using HostCounters = std::function<std::vector<StepCounter>()>;

  /// `name` begins each line. A line is written after at least `every_s`.
  LoopWatch(std::string name, double every_s);

  /// Begins an epoch. `created_s`: how long creating its iterator took, which counts as waiting for
  /// the first batch.
  void begin_epoch(double now_s, double created_s);
  /// Sets the source of the batches. Called after the first batch of an epoch, because most
  /// iterators start their workers only then. `host_counters` returns the counters of a native
  /// loader, or is empty.
  void set_source(bool has_workers, HostCounters host_counters);
  /// Adds a call of next(). Returns true if lines or totals can be taken.
  bool add(const LoopWait& wait);
  /// Ends the epoch, if one has begun, at the last call of next(). Lines and totals can be taken
  /// then.
  void end_epoch();

  /// Returns new lines for the user.
  std::vector<std::string> take_lines();
  /// Returns the totals since the last ones, if `every_s` has passed or an epoch has ended.
  std::optional<LoopTotals> take_totals();
  /// Returns the totals of all epochs.
  const LoopTotals& totals();
  const WatchTotals& starvation() const { return starvation_.totals(); }
  std::string_view state() const { return starvation_.state(); }

 private:
  LoopTotals count(const LoopWait& wait);
  void judge(const LoopWait& wait);
  void count_host();
  void end_interval();

  std::string name_;
  double every_s_;
  StarvationWatch starvation_;
  LoopTotals total_, epoch_, interval_, before_;  ///< before_: the interval before this one
  std::optional<LoopTotals> ended_;               ///< intervals that have ended, for take_totals()
  std::vector<std::string> lines_;
  HostCounters host_counters_;
  std::vector<StepCounter> counted_;
  bool has_workers_ = false, is_in_epoch_ = false, is_first_wait_ = false;
  double last_s_ = 0, part_began_s_ = 0;
  std::uint64_t epochs_ = 0;
};

}  // namespace slipstream
