#pragma once

#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "doctor/examined_loop.h"
#include "doctor/turns.h"
#include "slipstream/doctor/doctor.h"

namespace slipstream {

/// Measures a loop: decides what is measured, in which order, for how long and with which weight.
/// Use it once.
class Examiner {
 public:
  /// Both arguments must outlive the object.
  Examiner(ExaminedLoop& loop, const DoctorOptions& options) : loop_(loop), options_(options) {}

  /// Exceptions of a loader with one worker propagate. Throws Refused as soon as it is known that
  /// the budget is too small for a verdict; the message has a sufficient one. Throws Error
  /// if neither the ceiling nor the whole loop can be measured. If any other value cannot be
  /// measured, the result contains the reason.
  Observations run();

 private:
  bool stopped() const { return options_.stop && options_.stop(); }
  double left() const;
  void log_line(const std::string& what) const {
    if (options_.log_line) options_.log_line(what);
  }
  void measure_all_workers();
  double rate_of_all_workers() const;
  CacheSizes decide_cache_sizes() const;
  double known_step_s() const;
  double least_s(double step_s) const;
  void refuse_small_budget(double step_s) const;
  void declare_tasks();
  void declare_task(const std::string& what, const RateInTurns& rate, std::string& error,
                    double weight = 1, bool is_essential = false);
  void declare_levels(bool are_essential);
  void attempt(Task& task, TurnTime time);
  Task* doubtful();

  Level finished_level(const ExaminedLevel& examined) const;
  Observations observations();

  ExaminedLoop& loop_;
  const DoctorOptions& options_;
  RateInTurns one_, all_, half_;
  double all_turn_s_ = 0;  ///< duration of the first turn of all workers; 0: none, or it failed
  std::string half_error_;
  std::optional<CacheSizes> sizes_;
  std::vector<ExaminedLevel> levels_;
  std::vector<OtherRate> others_;
  std::deque<Task> tasks_;
};

}  // namespace slipstream
