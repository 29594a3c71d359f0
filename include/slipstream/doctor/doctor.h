#pragma once

#include <functional>
#include <string>
#include <vector>

#include "slipstream/diagnosis/diagnosis.h"
#include "slipstream/run/trainer.h"

namespace slipstream {

struct DoctorOptions {
  /// How long measuring takes, about, s; what does not fit is left out, and named. What all else
  /// rests on is taken with the fewest steps even if it is longer, which is said beforehand.
  double budget_s = 60;
  std::function<bool()> stop = {};  ///< asked often; true ends measuring with what there is
  std::function<void(const std::string& line)> say = {};  ///< told what is measured
};

struct Examination {
  Observations observed;          ///< for diagnose()
  std::vector<LaneResult> lanes;  ///< of a run with nothing cached
  double seconds = 0;             ///< that it took
  bool interrupted = false;
};

/// Measures `plan` from the trainer's position on: with everything up to a step cached, for each
/// step, with training and (host steps) with nobody training; each host step sample by sample in
/// one worker; the copy and each device step alone; how busy device and cores are. What all else
/// rests on is measured first, then, in turns, whatever is least sure, until all is known to within
/// 1 % (the whole pipeline, which counts most, to within a quarter of that). A figure that cannot
/// be taken names the reason (Rung::error).
///
/// Weights, buffers, optimizer state, position and PyTorch's default generators are as before when
/// it returns or throws: training goes on to the same bits. Loaders and caches are of its own. On a
/// GPU it takes memory for up to 4 batches more than training.
///
/// Throws Refused for a plan that cannot be run, Error where not even one worker alone can make
/// samples, or neither the ceiling nor the whole pipeline can be measured; DeviceLost.
Examination examine(Trainer& trainer, const Plan& plan, const DoctorOptions& options);

/// Runs `remedy`'s plan beside the one examined, in turns where neither has a cache to fill, and
/// tells what it gave. Everything is put back as by examine(), and the same is thrown. Where the
/// plan has a cache, the samples that the budget allows go through it first.
Outcome try_out(Trainer& trainer, const Plan& examined, const Remedy& remedy,
                const Diagnosis& diagnosis, const DoctorOptions& options);

}  // namespace slipstream
