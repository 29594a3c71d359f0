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
  std::function<void(const TurnTime& time)> measure = {};  ///< empty: there is nothing to measure
  std::function<Measured()> figure = {};                   ///< n = 0 where nothing is measured yet

  bool is_measured() const { return figure && figure().n > 0; }
};

/// A cache level of a loop.
struct ExaminedLevel {
  Level level;  ///< without rates; with an error where it is known that it cannot be measured
  bool is_essential = false;  ///< whether a diagnosis needs it
  RateInTurns training;       ///< steps/s
  RateInTurns loader_alone;   ///< samples/s; of the last level, the examiner sets it
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

  /// Since the examination began.
  virtual double seconds() const = 0;
  virtual unsigned workers() const = 0;
  virtual std::size_t batch_size() const = 0;
  /// Whether a cache of the loop's own is filled before its loader is measured.
  virtual bool fills_cache() const { return false; }
  virtual MachineCapacity capacity(unsigned cores) const = 0;
  /// What is known without a measurement.
  virtual Observations describe() const = 0;

  /// Samples/s of the loader with nothing cached, while nothing trains.
  virtual RateInTurns loader_alone(WorkerCount count) = 0;
  /// Costs of the samples that one worker made. Called after loader_alone() was measured.
  virtual SampleCosts sample_costs() const = 0;
  /// From the device batch to nothing cached. Called once.
  virtual std::vector<ExaminedLevel> make_levels(const CacheSizes& sizes) = 0;
  /// What else is measured. Called once, after make_levels().
  virtual std::vector<OtherRate> make_other_rates(const CacheSizes& sizes) = 0;
  /// Called in a catch block, where measuring has failed: makes the loop ready for another
  /// measurement and returns why. Throws again what must end the examination.
  virtual std::string take_failure() = 0;
  /// Adds all that follows from measurements, beyond the rates of levels and of the loader.
  virtual void add_findings(Observations& observed) = 0;
};

}  // namespace slipstream
