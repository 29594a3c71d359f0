#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "doctor/cache_sizes.h"
#include "doctor/turn_time.h"
#include "slipstream/doctor/diagnosis.h"

namespace slipstream {

/// A rate that is measured in turns.
struct RateInTurns {
  std::function<void(const TurnTime& time)> measure = {};  ///< empty: cannot be measured
  std::function<Measured()> figure = {};                   ///< n = 0: not measured yet
  std::function<void()> restart = {};                      ///< forgets all turns; may be empty

  bool is_measured() const { return figure && figure().n > 0; }
};

/// A cache level of a loop.
struct ExaminedLevel {
  Level level;  ///< without rates; has an error if it is known that it cannot be measured
  bool is_essential = false;  ///< whether a diagnosis needs it
  RateInTurns training;       ///< steps/s
  RateInTurns loader_alone;   ///< samples/s; the Examiner sets that of the last level
};

/// Another rate of a loop.
struct OtherRate {
  std::string what;
  RateInTurns rate;
  bool is_expected = true;  ///< whether a warning says why it could not be measured
  std::string error = {};
};

/// How many workers a loader has.
enum class WorkerCount : std::uint8_t { one, half, all };

/// A training loop that the doctor examines. The Examiner decides what is measured, when, for how
/// long and with which weight; an ExaminedLoop runs the loop and its loaders. One examination uses
/// it, on one thread.
class ExaminedLoop {
 public:
  ExaminedLoop() = default;
  ExaminedLoop(const ExaminedLoop&) = delete;
  ExaminedLoop& operator=(const ExaminedLoop&) = delete;
  virtual ~ExaminedLoop() = default;

  /// Seconds since the examination began.
  virtual double seconds() const = 0;
  virtual unsigned workers() const = 0;
  virtual std::size_t batch_size() const = 0;
  /// Whether measuring the loader first fills a cache that is part of the loop.
  virtual bool fills_cache() const { return false; }
  virtual MachineCapacity capacity(unsigned cores) const = 0;
  /// Returns the facts that are known without a measurement.
  virtual Observations describe() const = 0;

  /// Samples/s of the loader with nothing cached, while nothing trains.
  virtual RateInTurns loader_alone(WorkerCount count) = 0;
  /// Costs of the samples that one worker produced. Called after loader_alone(one) was measured.
  virtual SampleCosts sample_costs() const = 0;
  /// Returns all levels, from the device batch to nothing cached. Called once.
  virtual std::vector<ExaminedLevel> make_levels(const CacheSizes& sizes) = 0;
  /// Returns the other rates to measure. Called once, after make_levels().
  virtual std::vector<OtherRate> make_other_rates(const CacheSizes& sizes) = 0;
  /// Called in a catch block after a measurement has failed. Makes the loop ready for another
  /// measurement and returns the reason. Rethrows an exception that must end the examination.
  virtual std::string take_failure() = 0;
  /// Adds all other results, which follow from the measurements, to the rates in `observed`.
  virtual void add_findings(Observations& observed) = 0;
};

}  // namespace slipstream
