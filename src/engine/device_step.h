#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "slipstream/core/lane.h"
#include "slipstream/engine/stage.h"

namespace slipstream {

/// One device step of a lane.
struct DeviceStep {
  enum class Kind : std::uint8_t { copy, frozen, train };
  Kind kind;
  std::string name;
  const FrozenStage* frozen = nullptr;
  /// Whether a plan may run it as a CUDA graph: stages that the pipeline declares, and training.
  /// The others use values of the host that differ from batch to batch.
  bool may_have_graph = false;
};

struct LaneBinding {
  Lane* lane = nullptr;
  std::vector<DeviceStep> steps;
};

}  // namespace slipstream
