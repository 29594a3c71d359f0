#pragma once

#include "doctor/pipeline_model.h"
#include "slipstream/doctor/diagnosis.h"

namespace slipstream {

/// A step of which every sample waits and works so long, s.
PipelineModel::Step make_step(const std::string& name, Bottleneck group, double waiting_s,
                              double working_s);

/// read, decode, "crop", "blur", collate: 1 ms of work each but for collate, 4 workers on 8 cores,
/// batches of 32, a line of 100 ms.
PipelineModel usual_model();

/// Workload W3's stated costs: 4 workers, batches of 256, a step of 290 ms, and 10 ms each for the
/// copy and the hand-over.
PipelineModel article_model();

/// What would be measured of a pipeline that is `model`, without any noise. `copy_s`: of its line.
Observations make_observations(const PipelineModel& model, double copy_s = 0);

/// The change of that id, or nullptr.
const Change* find(const Diagnosis& diagnosis, const std::string& id);

}  // namespace slipstream
