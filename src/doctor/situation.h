#pragma once

#include "doctor/trials.h"
#include "slipstream/doctor/diagnosis.h"
#include "slipstream/engine/trainer.h"

namespace slipstream {

/// What the declaration, the plan and the machine tell. `bytes`: what each host step makes of a
/// sample, in their order.
Situation make_situation(const Trainer& trainer, const Plan& plan,
                         const std::vector<double>& bytes);

/// Fields that travel to the device although training runs without them: each is left on the host
/// for one step. Changes the trainer's state.
std::vector<std::string> unused_fields(Trials& trials, const Plan& plan);

/// `plan` with the transforms from `first` on in the device's hands, on a lane of their own.
Plan with_device_transforms(const Trainer& trainer, const Plan& plan, const std::string& first);

}  // namespace slipstream
