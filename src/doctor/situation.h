#pragma once

#include "doctor/trials.h"
#include "slipstream/doctor/diagnosis.h"
#include "slipstream/engine/trainer.h"

namespace slipstream {

/// Returns the facts that follow from the pipeline's declaration, the plan and the machine.
/// `bytes`: size of each host step's result for one sample, in the order of the steps.
Situation make_situation(const Trainer& trainer, const Plan& plan,
                         const std::vector<double>& bytes);

/// Returns the last host step whose results are the same in every epoch, so that they can be
/// cached. If decoding uses the random region of the first transform, that is the step before
/// decoding.
std::string last_fixed_step(const Dataset& dataset, const std::vector<NamedOp>& transforms,
                            const DataLoaderOptions& options);

/// Returns the fields that are copied to the device although training runs without them. To find
/// them, it leaves each field on the host for one step. Changes the trainer's state.
std::vector<std::string> unused_fields(Trials& trials, const Plan& plan);

/// Returns `plan` with `first` and all later transforms on the device, on a separate lane.
Plan with_device_transforms(const Trainer& trainer, const Plan& plan, const std::string& first);

}  // namespace slipstream
