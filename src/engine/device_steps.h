#pragma once

#include <optional>
#include <string>
#include <vector>

#include "engine/bound_pipeline.h"
#include "engine/device_slab.h"
#include "engine/device_step.h"
#include "slipstream/engine/trainer.h"

namespace slipstream {

/// The device steps of a declared pipeline, on the lanes of a plan. Stages that the declaration
/// does not name (augment, mix) are created and owned by this object.
class DeviceSteps {
 public:
  /// `bound` must outlive this.
  explicit DeviceSteps(const BoundPipeline& bound);
  DeviceSteps(const DeviceSteps&) = delete;
  DeviceSteps& operator=(const DeviceSteps&) = delete;

  /// Returns the steps between the cut and the last step of `options`, in order. Throws Refused if
  /// there are none. A call with other transforms on the device, or other wire formats, invalidates
  /// the steps that earlier calls returned.
  std::vector<DeviceStep> of(const Plan& plan, const RunOptions& options);
  /// Returns the steps of of(), grouped by lane.
  std::vector<LaneBinding> on_lanes(const Plan& plan, const RunOptions& options);

 private:
  /// Returns the stage of the transforms that the plan assigns to the device; nullptr if there are
  /// none.
  const FrozenStage* augmenting(const Plan& plan);

  const BoundPipeline& bound_;
  std::optional<FrozenStage> mix_;  ///< stage of the operations on whole batches, if there are any
  std::optional<FrozenStage> augment_;
  std::string augmented_from_;  ///< LoaderPlan::on_device for which augment_ was made
  WireFormats augmented_wire_;
};

/// Applies the frozen steps among `steps` to `batch` on the current lane, and returns the fields
/// that they set. `doing` names the step that runs and, after an exception, the step that threw.
Fields run_frozen(const BoundPipeline& bound, const std::vector<DeviceStep>& steps, Batch batch,
                  std::string& doing);

/// Returns the fields of `after` that `before` does not have or whose tensor is another one.
Fields made_between(const Batch& before, const Batch& after);

}  // namespace slipstream
