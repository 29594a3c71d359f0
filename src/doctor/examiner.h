#pragma once

#include <chrono>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "doctor/cache_levels.h"
#include "doctor/drained_rate.h"
#include "doctor/training_rate.h"
#include "doctor/turns.h"
#include "doctor/usage.h"
#include "doctor/wires.h"
#include "engine/state_guard.h"
#include "slipstream/doctor/doctor.h"

namespace slipstream {

/// Does what examine() says.
class Examiner {
 public:
  Examiner(Trainer& trainer, const Plan& plan, const DoctorOptions& options)
      : trainer_(trainer),
        plan_(plan),
        options_(options),
        guard_(trainer),
        usage_(trainer.context()) {}

  Examination run();

 private:
  bool stopped() const { return options_.stop && options_.stop(); }
  double left() const;
  void log_line(const std::string& what) const {
    if (options_.log_line) options_.log_line(what);
  }
  void measure_one_worker();
  void measure_pool();
  double pool_rate() const;
  void declare_levels();
  void declare_device();
  void declare_tasks();
  void declare_tasks_of_device();
  void attempt(Task& task, TurnTime time);
  std::vector<Task*> doubtful();
  double batch_s() const;
  double known_step_s() const;
  void report_least_time(double seconds, const std::string& why);
  void measure_with_workers(const TurnTime& time);
  void train(TrainingRate& rate, const TurnTime& time);
  std::size_t samples_to_cache(double bytes) const;
  std::size_t batches_to_cache() const;

  std::vector<DeviceCost> device_costs() const;
  void note_findings(Observations& observed) const;
  Observations declared() const;
  void try_formats(Observations& observed);
  Observations observations();

  Trainer& trainer_;
  const Plan& plan_;
  const DoctorOptions& options_;
  StateGuard guard_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();

  std::optional<DrainedRate> one_;
  std::optional<DrainedRate> all_, half_;
  double pool_turn_s_ = 0;  ///< that measure_pool() took; 0: it could not
  std::string all_error_, half_error_;
  std::deque<MeasuredLevel> levels_;
  std::deque<MeasuredStep> device_;
  std::optional<MeasuredStep> augment_;
  std::optional<JpegAlone> jpeg_;
  std::string jpeg_error_;  ///< why files are nothing for this device: no warning
  std::optional<TrainingRate> with_workers_;
  std::string with_workers_error_;
  std::deque<Task> tasks_;
  bool is_overrun_reported_ = false;
  Usage usage_;  ///< with nothing cached
};

}  // namespace slipstream
