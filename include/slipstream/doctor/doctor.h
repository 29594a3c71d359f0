#pragma once

#include <functional>
#include <string>
#include <vector>

#include "slipstream/doctor/diagnosis.h"
#include "slipstream/engine/trainer.h"

namespace slipstream {

/// Options of examine() and try_out().
struct DoctorOptions {
  /// Approximate time for the measurements, in seconds, above 0. Measurements that do not fit are
  /// left out and listed as missing. If not even the shortest useful measurements for a verdict
  /// fit, the budget is refused.
  double budget_s = 60;
  /// Called often, by the calling thread or the thread that feeds the first lane. If it returns
  /// true, the examination ends and returns the values that were measured until then. May be empty.
  std::function<bool()> stop = {};
  /// Called with the name of each measurement before it begins; may be empty.
  std::function<void(const std::string& line)> log_line = {};
  /// `budget_s` divided by the budget that the user gave, of which the rest is for other work. The
  /// refusal of a budget states the user's budget.
  double budget_share = 1;
};

/// Result of examine().
struct Examination {
  Observations observed;          ///< input of diagnose()
  std::vector<LaneResult> lanes;  ///< lanes of a run with nothing cached; empty if there was none
  double seconds = 0;             ///< duration of the examination
  bool interrupted = false;       ///< whether DoctorOptions::stop ended it
};

/// Measures `plan`, starting at the trainer's position, in these ways:
/// - the rate with training at each cache level, and the rate of the loader alone at each level
///   that caches samples or nothing;
/// - each host step, sample by sample, in one worker;
/// - the copy and each device step alone;
/// - how busy the device and the cores are.
/// The measurements that all others need run first. Then it repeatedly measures the least certain
/// value, until all are certain to within 1 % (the whole pipeline, which has most influence, to
/// within a quarter of that), or until the budget is used up. If a value cannot be measured, the
/// result contains the reason (Level::error).
///
/// When the call returns or throws, weights, buffers, optimizer state, position and PyTorch's
/// default generators are restored, so training continues with the same bits. The call uses
/// separate loaders and caches. On a GPU it needs memory for up to 4 batches more than training.
/// The work runs on the streams of the trainer's lanes, and the call waits until it has finished.
/// No other thread may use the trainer during the call.
///
/// Throws Refused if the plan cannot be run, if the budget is not above 0, and if it is too small
/// for this pipeline. The first samples and steps show that, and the message proposes a budget.
/// Throws Error if a single worker cannot produce samples, and if neither the ceiling nor the whole
/// pipeline can be measured. Throws DeviceLost if the device cannot be used any more.
Examination examine(Trainer& trainer, const Plan& plan, const DoctorOptions& options);

/// Measures the plan of `remedy` and, for comparison, the examined plan. If neither has a cache,
/// the two alternate in up to 3 rounds, so that a change of the machine's speed affects both. If
/// one has a cache, that cache is filled first, for at most 60 % of the budget. Restores the
/// trainer, waits, and may be called as described for examine(). Throws Refused for a plan that
/// cannot be run, Error if a plan fails, and DeviceLost.
Outcome try_out(Trainer& trainer, const Plan& examined, const Remedy& remedy,
                const Diagnosis& diagnosis, const DoctorOptions& options);

}  // namespace slipstream
