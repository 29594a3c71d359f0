#pragma once

#include <optional>
#include <string>
#include <vector>

#include "engine/bound_pipeline.h"
#include "engine/device_slab.h"
#include "engine/device_step.h"
#include "slipstream/engine/trainer.h"

namespace slipstream {

/// The device steps of a declaration, on the lanes of a plan. Stages that the declaration does not
/// name (augment, mix) are made here and live as long as this.
class DeviceSteps {
 public:
  /// `bound` must outlive this.
  explicit DeviceSteps(const BoundPipeline& bound);
  DeviceSteps(const DeviceSteps&) = delete;
  DeviceSteps& operator=(const DeviceSteps&) = delete;

  /// Those between the cut and the last step of `options`, in order. Throws Refused where there are
  /// none. What an earlier call gave for other transforms on the device, or other wire formats, is
  /// no longer valid.
  std::vector<DeviceStep> of(const Plan& plan, const RunOptions& options);
  /// The same, by lane.
  std::vector<LaneBinding> on_lanes(const Plan& plan, const RunOptions& options);

 private:
  /// Of the transforms that are the device's; nullptr where none are.
  const FrozenStage* augmenting(const Plan& plan);

  const BoundPipeline& bound_;
  std::optional<FrozenStage> mix_;  ///< of the operations over batches, where there are any
  std::optional<FrozenStage> augment_;
  std::string augmented_from_;  ///< what augment_ was made for
  WireFormats augmented_wire_;
};

/// Does the frozen steps among `steps` to `batch` on the current lane, and returns what they made.
/// `doing` says which one runs, and after an exception which one threw.
Fields run_frozen(const BoundPipeline& bound, const std::vector<DeviceStep>& steps, Batch batch,
                  std::string& doing);

/// Fields that `after` has and `before` lacks, or that are others.
Fields made_between(const Batch& before, const Batch& after);

}  // namespace slipstream
