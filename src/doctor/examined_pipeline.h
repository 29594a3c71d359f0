#pragma once

#include <chrono>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "doctor/cache_levels.h"
#include "doctor/drained_rate.h"
#include "doctor/examined_loop.h"
#include "doctor/training_rate.h"
#include "doctor/usage.h"
#include "doctor/wires.h"
#include "engine/state_guard.h"
#include "slipstream/doctor/doctor.h"

namespace slipstream {

/// A trainer's plan, for the Examiner. The destructor restores the trainer's state.
class ExaminedPipeline : public ExaminedLoop {
 public:
  /// The arguments must outlive the object.
  ExaminedPipeline(Trainer& trainer, const Plan& plan, const DoctorOptions& options)
      : trainer_(trainer),
        plan_(plan),
        options_(options),
        guard_(trainer),
        usage_(trainer.context()) {}

  double seconds() const override;
  unsigned workers() const override { return plan_.schedule.loader.num_workers; }
  std::size_t batch_size() const override { return trainer_.pipeline().options().batch_size; }
  bool fills_cache() const override { return plan_.schedule.loader.cache.has_value(); }
  MachineCapacity capacity(unsigned cores) const override;
  Observations describe() const override;
  RateInTurns loader_alone(WorkerCount count) override;
  SampleCosts sample_costs() const override;
  std::vector<ExaminedLevel> make_levels(const CacheSizes& sizes) override;
  std::vector<OtherRate> make_other_rates(const CacheSizes& sizes) override;
  std::string take_failure() override;
  void add_findings(Observations& observed) override;

  /// Lanes of a run with nothing cached; empty if there was no such run.
  std::vector<LaneResult> lanes() const;

 private:
  bool stopped() const { return options_.stop && options_.stop(); }
  bool is_on_gpu() const { return trainer_.context().kind() == DeviceKind::cuda; }
  void train(TrainingRate& rate, const TurnTime& time);
  void train_with_workers(const TurnTime& time);
  RateInTurns with_training(TrainingRate& rate);
  RateInTurns drained(DrainedRate& rate);

  std::vector<DeviceCost> device_costs() const;
  void note_findings(Observations& observed) const;
  void try_formats(Observations& observed);

  Trainer& trainer_;
  const Plan& plan_;
  const DoctorOptions& options_;
  StateGuard guard_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();

  std::optional<DrainedRate> one_, half_, all_;
  std::deque<MeasuredLevel> levels_;
  std::deque<MeasuredStep> device_;
  std::optional<MeasuredStep> augment_;
  std::optional<JpegAlone> jpeg_;
  std::optional<TrainingRate> with_workers_;
  Usage usage_;  ///< while nothing is cached
};

}  // namespace slipstream
