#pragma once

#include "slipstream/diagnosis.h"

namespace slipstream {

/// A step of which every sample waits and works so long, s.
PipelineModel::Step step_of(const std::string& name, Culprit group, double waiting_s,
                            double working_s);

/// read, decode, "crop", "blur", collate: 1 ms of work each but for collate, 4 workers on 8 cores,
/// batches of 32, a line of 100 ms.
PipelineModel usual_model();

/// What would be measured of a pipeline that is `model`, without any noise. `copy_s`: of its line.
Observations observed_of(const PipelineModel& model, double copy_s = 0);

}  // namespace slipstream
