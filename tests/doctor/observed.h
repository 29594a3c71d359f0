#pragma once

#include "doctor/pipeline_model.h"
#include "slipstream/doctor/diagnosis.h"

namespace slipstream {

/// A step in which every sample waits and computes for these times, in seconds.
PipelineModel::Step make_step(const std::string& name, Bottleneck group, double waiting_s,
                              double working_s);

/// read, decode, "crop" and "blur" with 1 ms of computation each, and collate; 4 workers on 8
/// cores, batches of 32. The lanes need 100 ms per step.
PipelineModel usual_model();

/// The stated costs of workload W3: 4 workers, batches of 256, a training step of 290 ms, and 10 ms
/// each for the copy and the hand-over.
PipelineModel article_model();

/// Returns the measurements of a pipeline that behaves exactly as `model`, without noise. `copy_s`
/// is the part of the lanes' time that the copy takes.
Observations make_observations(const PipelineModel& model, double copy_s = 0);

/// Returns the change with that id, or nullptr.
const Change* find(const Diagnosis& diagnosis, const std::string& id);

}  // namespace slipstream
