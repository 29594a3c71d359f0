#pragma once

#include <cstdint>
#include <exception>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "core/sync.h"
#include "core/trace.h"
#include "loader/bad_samples.h"
#include "loader/cached_steps.h"
#include "loader/sample_steps.h"

namespace slipstream {

/// Adds the problems of the options to `problems`.
void check_read_ahead(const ReadAhead& options, std::vector<std::string>& problems);

/// Transfers raw samples from reader threads to workers. Samples are numbered in the running order.
/// Sample n uses slot n modulo slots(). A slot changes from empty to being read, then to arrived;
/// taking the sample empties the slot for the next one.
///
/// Readers start samples in order, so the lowest sample that has not been taken always has a slot.
/// The worker that waits for it can therefore continue, however many other workers wait and
/// whatever the number of slots: there is no deadlock.
class ReadRing {
 public:
  struct Options {
    ReadAhead read_ahead;
    std::size_t batch_size = 1;
    std::uint64_t first_batch = 0;
    TraceRecorder* trace = nullptr;
  };

  /// The sample at a position, as the reader found it.
  struct FetchResult {
    std::uint64_t sample = 0;  ///< index in the data set
    bool is_read = false;      ///< false: known as bad, cached, or reading it threw `error`
    std::exception_ptr error;  ///< the exception thrown by reading it
  };

  /// Starts the readers. All arguments except the options must outlive the ring.
  ReadRing(const SampleSteps& steps, const RunningOrder& order, const BadSamples& bad,
           const CachedSteps& cached, const Options& options);

  /// Waits until the sample of this position has arrived, and copies what was read to `to`. The
  /// data is copied, not swapped, because workers' arrays grow to the size of decoded images, while
  /// those of the ring only grow to the size of files. Throws Error if the ring is stopped.
  /// REQUIRES: called once for every position
  FetchResult take(std::uint64_t batch, std::size_t position, Sample& to)
      SLIPSTREAM_EXCLUDES(mutex_);
  /// Prevents further reads, and wakes all threads that wait in take().
  void stop() SLIPSTREAM_EXCLUDES(mutex_);

  std::size_t slots() const { return raws_.size(); }
  /// Adds the cost of the readers' steps to `totals`, one entry for each step.
  void add_to(std::span<StepCounter> totals) const;
  void add_to(std::span<StepLaps> laps) const;

 private:
  /// Belongs to its reader until the sample has arrived, then to the worker that takes it. It
  /// therefore needs no lock.
  struct Raw {
    Sample sample;
    FetchResult arrived;
  };
  struct Slot {
    /// Number of the sample in the slot or, if it is empty, of the next one.
    std::uint64_t number = 0;
    bool has_arrived = false;
    ConditionVariable changed;
  };
  class SlotRelease;

  Raw& raw(std::uint64_t number) { return raws_[number % raws_.size()]; }
  Slot& slot(std::uint64_t number) SLIPSTREAM_REQUIRES(mutex_) {
    return slots_[number % slots_.size()];
  }
  bool can_begin() SLIPSTREAM_REQUIRES(mutex_) { return slot(next_).number == next_; }
  void read_on(const std::stop_token& stop, StepMeter& meter);
  std::optional<std::uint64_t> begin() SLIPSTREAM_EXCLUDES(mutex_);
  void read(std::uint64_t number, StepMeter& meter);
  void end(std::uint64_t number) SLIPSTREAM_EXCLUDES(mutex_);
  void wait_for(std::uint64_t number) SLIPSTREAM_EXCLUDES(mutex_);
  void empty(std::uint64_t number) SLIPSTREAM_EXCLUDES(mutex_);

  const SampleSteps& steps_;
  const RunningOrder& order_;
  const BadSamples& bad_;
  const CachedSteps& cached_;
  const Options options_;
  std::vector<Raw> raws_;
  std::vector<StepMeter> meters_;

  Mutex mutex_;
  ConditionVariable can_begin_;
  std::vector<Slot> slots_ SLIPSTREAM_GUARDED_BY(mutex_);
  /// The first sample that no reader has started.
  std::uint64_t next_ SLIPSTREAM_GUARDED_BY(mutex_) = 0;
  bool stopped_ SLIPSTREAM_GUARDED_BY(mutex_) = false;
  // Declared last, so that the threads are joined before the members that they use are destroyed.
  std::vector<std::jthread> readers_;
};

}  // namespace slipstream
