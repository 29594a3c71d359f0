#pragma once

#include <cstddef>
#include <vector>

#include "doctor/block_rate.h"
#include "doctor/turn_time.h"

namespace slipstream {

/// Decides how many batches of a loop count in each turn. It is for loaders that do not show how
/// many batches are ready, such as PyTorch's: those of all workers arrive together, so only whole
/// periods count, each of one batch of every worker. The caller runs the loop and has the clock.
class PeriodicTurns {
 public:
  /// Begins a turn. It takes about `time.wanted_s`, and longer until a period has been counted,
  /// whatever `time.most_s` is.
  void begin(const TurnTime& time, double now_s);
  /// Counts a batch that is done with. Returns whether the turn needs another one.
  bool add(double now_s);
  /// Batches of this turn that count.
  std::size_t counted() const { return done_ - std::min(done_, skipped_); }

 protected:
  /// `workers`: whose batches arrive together; 0 or 1 for cached batches. `skipped`: batches at the
  /// beginning of a turn that do not count.
  PeriodicTurns(std::size_t workers, std::size_t skipped);

  std::size_t period_;
  std::size_t skipped_;

 private:
  std::size_t done_ = 0;
  double start_s_ = 0;
  double wanted_s_ = 0;
};

/// Samples/s of such a loader while nothing trains.
class LoaderTurns : public PeriodicTurns {
 public:
  /// In the first period of a turn, batches wait for the workers to start.
  LoaderTurns(std::size_t workers, std::size_t batch_size);

  void begin(const TurnTime& time, double now_s);
  bool add(double now_s);
  /// Takes what the turn has counted.
  void end();
  /// n = 0 where nothing is measured.
  Measured rate() const { return rate_.rate(); }

 private:
  std::size_t batch_size_;
  std::vector<double> ends_s_;
  BlockRate rate_;
};

/// Steps/s of a loop that trains on the batches of such a loader.
class TrainingTurns : public PeriodicTurns {
 public:
  explicit TrainingTurns(std::size_t workers);

  /// Takes the seconds of all steps of the turn, the first ones included.
  void end(const std::vector<double>& durations_s);
  /// n = 0 where nothing is measured.
  Measured rate() const;
  /// Seconds of the last turn's steps by the cached batch that each took, of `items` in turn.
  std::vector<std::vector<double>> by_item(std::size_t items) const;

 private:
  std::vector<double> last_s_;   ///< of single steps that count, of the last turn
  std::vector<double> means_s_;  ///< of a step, in each period
};

/// Samples in the batches of such a loader while nothing trains: few enough that batches are
/// counted often where making a sample takes `sample_s`.
std::size_t counted_batch_size(std::size_t batch_size, double sample_s);

}  // namespace slipstream
