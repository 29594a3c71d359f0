#pragma once

#include <functional>
#include <string>
#include <vector>

#include "slipstream/doctor/diagnosis.h"
#include "slipstream/engine/trainer.h"

namespace slipstream {

/// Options of examine() and try_out().
struct DoctorOptions {
  /// Seconds that measuring takes, about. What does not fit is left out and named. The measurements
  /// that all others need are made with the fewest steps even where that takes longer. Then
  /// `log_line` is called with a warning first.
  double budget_s = 60;
  std::function<bool()> stop = {};  ///< asked often; true ends measuring with what there is
  /// Called with what is being measured.
  std::function<void(const std::string& line)> log_line = {};
};

/// What examine() measured.
struct Examination {
  Observations observed;          ///< for diagnose()
  std::vector<LaneResult> lanes;  ///< in a run with nothing cached
  double seconds = 0;             ///< how long it took
  bool interrupted = false;       ///< whether DoctorOptions::stop ended it
};

/// Measures `plan` from the trainer's position on, in these ways:
/// - with everything up to a step from a cache, for each step, with training, and for host steps
///   also while nobody trains;
/// - each host step sample by sample in one worker;
/// - the copy and each device step alone;
/// - how busy device and cores are.
/// The measurements that all others need come first. Then it measures in turns what is least sure,
/// until all is known to within 1 % (the whole pipeline, which counts most, to within a quarter of
/// that). A figure that cannot be taken has its reason (Level::error).
///
/// Weights, buffers, optimizer state, position and PyTorch's default generators are as before when
/// it returns or throws, so training goes on to the same bits. It uses loaders and caches of its
/// own. On a GPU it takes memory for up to 4 batches more than training. It waits until its work is
/// done.
///
/// Throws Refused for a plan that cannot be run. Throws Error where one worker alone cannot make
/// samples, and where neither the ceiling nor the whole pipeline can be measured. Throws DeviceLost
/// when the device cannot be used any more.
Examination examine(Trainer& trainer, const Plan& plan, const DoctorOptions& options);

/// Measures the plan of `remedy` beside the one that was examined, and returns what it gave. The
/// two take turns where neither has a cache to fill. Where the new plan has a cache, as many
/// samples as the budget allows go through it first. It puts the trainer back as examine() does.
/// Throws Refused for a plan that cannot be run, Error where it cannot be measured, and DeviceLost.
Outcome try_out(Trainer& trainer, const Plan& examined, const Remedy& remedy,
                const Diagnosis& diagnosis, const DoctorOptions& options);

}  // namespace slipstream
