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

/// Adds what is wrong with the options to `problems`.
void check_read_ahead(const ReadAhead& options, std::vector<std::string>& problems);

/// Raw samples on their way from reader threads to workers, numbered along the running order.
/// Sample n goes through slot n modulo slots(): empty -> being read -> arrived -> taken, which
/// empties it for the next.
///
/// Readers begin samples in order, and the lowest one that is not taken always has its slot: the
/// worker that waits for it goes on, however many others wait, and whatever the number of slots.
class ReadRing {
 public:
  struct Options {
    ReadAhead read_ahead;
    std::size_t batch_size = 1;
    std::uint64_t first_batch = 0;
    TraceRecorder* trace = nullptr;
  };

  /// What stands at a position, as the reader found it.
  struct FetchResult {
    std::uint64_t sample = 0;  ///< index in the data set
    bool is_read = false;      ///< false: it is known as bad, cached, or
    std::exception_ptr error;  ///< what reading it threw
  };

  /// Starts the readers. All arguments but the options must outlive the ring.
  ReadRing(const SampleSteps& steps, const RunningOrder& order, const BadSamples& bad,
           const CachedSteps& cached, const Options& options);

  /// Waits until the sample of this position has come, and copies what was read to `to`. Copied
  /// rather than swapped: workers' arrays grow to decoded images, the ring's to files alone. Throws
  /// Error once the ring is stopped. REQUIRES: called once for every position
  FetchResult take(std::uint64_t batch, std::size_t position, Sample& to)
      SLIPSTREAM_EXCLUDES(mutex_);
  /// No read begins any more, and whoever waits in take() is woken.
  void stop() SLIPSTREAM_EXCLUDES(mutex_);

  std::size_t slots() const { return raws_.size(); }
  /// Adds what the readers' steps cost to `totals`, one per step.
  void add_to(std::span<StepCounter> totals) const;
  void add_to(std::span<StepLaps> laps) const;

 private:
  /// Belongs to its reader until the sample has arrived, then to the worker that takes it.
  struct Raw {
    Sample sample;
    FetchResult arrived;
  };
  struct Slot {
    std::uint64_t number = 0;  ///< of the sample that is in it, or the next one to be
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
  std::uint64_t next_ SLIPSTREAM_GUARDED_BY(mutex_) = 0;  ///< the first that no reader has begun
  bool stopped_ SLIPSTREAM_GUARDED_BY(mutex_) = false;
  std::vector<std::jthread> readers_;  // last: joined before what they use is gone
};

}  // namespace slipstream
