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
};

struct LaneBinding {
  Lane* lane = nullptr;
  std::vector<DeviceStep> steps;
};

}  // namespace slipstream
