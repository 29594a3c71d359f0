#pragma once

#include "slipstream/engine/context.h"
#include "slipstream/engine/pipeline.h"
#include "slipstream/engine/trainer.h"

namespace slipstream {

/// Gives access to the private parts of public types. Only sources of this module include it; they
/// pass on what tests and other modules need (context_parts.h, run_hooks.h, step_costs.h).
struct Access {
  static auto& of(Context& context) { return *context.impl_; }
  static auto& of(Trainer& trainer) { return *trainer.impl_; }
  static auto& costs(Pipeline& pipeline) { return pipeline.costs_; }
  static const auto& costs(const Pipeline& pipeline) { return pipeline.costs_; }
};

}  // namespace slipstream
