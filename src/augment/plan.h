#pragma once

#include <vector>

#include "augment/program.h"
#include "slipstream/augment.h"

namespace slipstream {

struct AugmentPlan::Program {
  std::vector<augment::PassProgram> passes;
  std::vector<Range> ranges;  ///< what each pass reads
  FieldKind kind = FieldKind::image;
  DType in = DType::u8;
  DType out = DType::u8;
  std::int32_t channels = 3;
  std::size_t drawn_bytes = 0;
  AugmentOutput output;
};

namespace augment {

/// Of one image between passes, u8 or f32, channels last.
std::size_t image_bytes(const AugmentPlan::Program& program, std::size_t before_pass);

}  // namespace augment
}  // namespace slipstream
