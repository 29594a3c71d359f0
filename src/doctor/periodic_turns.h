#pragma once

#include <cstddef>
#include <vector>

#include "doctor/turn_time.h"
#include "slipstream/core/statistics.h"

namespace slipstream {

/// A rate of a loop over a loader that does not show how many batches are ready, such as PyTorch's.
/// The batches of all workers arrive together, so only whole periods count, each of one batch of
/// every worker. The caller runs the loop and has the clock.
class PeriodicTurns {
 public:
  /// Samples/s of a loader while nothing trains. Its first batches wait for the workers to start.
  static PeriodicTurns of_loader(std::size_t workers, std::size_t batch_size);
  /// Steps/s of training. `workers`: number of workers of the loader; 0 or 1 for cached batches.
  static PeriodicTurns of_training(std::size_t workers);

  /// Forgets all turns.
  void restart();
  /// Begins a turn. It takes about `time.wanted_s`, and longer until a period has been counted,
  /// whatever `time.most_s` is.
  void begin(const TurnTime& time, double now_s);
  /// Counts a batch that has been processed. Returns whether the turn needs another one.
  bool add(double now_s);
  /// Number of counted batches of this turn.
  std::size_t counted() const { return done_ > skipped_ ? done_ - skipped_ : 0; }
  /// Ends the turn. `durations_s`: seconds of each batch, including batches that do not count.
  void end(const std::vector<double>& durations_s);

  /// n = 0 if nothing has been measured.
  Measured rate() const;
  /// Seconds of each counted batch of the last turn, grouped by cached batch: batch i of a turn is
  /// cached batch i modulo `items`.
  std::vector<std::vector<double>> by_item(std::size_t items) const;

 private:
  PeriodicTurns(std::size_t workers, std::size_t fewest_skipped);

  std::size_t period_;
  std::size_t skipped_;         ///< batches at the beginning of a turn that do not count
  std::size_t batch_size_ = 0;  ///< 0: the rate counts steps, not samples
  std::size_t done_ = 0;        ///< batches of this turn
  double start_s_ = 0;
  double wanted_s_ = 0;
  std::vector<double> last_s_;   ///< seconds of each counted batch of the last turn
  std::vector<double> means_s_;  ///< mean seconds of the batches of each period
};

/// Returns a batch size for measuring the loader of PeriodicTurns while no training runs. If a
/// sample takes long (`sample_s`), the batches are smaller than `batch_size`, so that one can be
/// counted about every 0.1 s.
std::size_t counted_batch_size(std::size_t batch_size, double sample_s);

}  // namespace slipstream
