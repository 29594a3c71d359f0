#pragma once

#include <vector>

#include "cuda/augment/augment.h"
#include "cuda/augment/functions.h"
#include "cuda/augment/pass_memory.h"
#include "cuda/augment/program.h"
#include "cuda/augment/special_pass.h"

namespace slipstream {

struct AugmentPlan::Program {
  std::vector<augment::PassProgram> passes;
  std::vector<Range> ranges;  ///< what each pass reads
  FieldKind kind = FieldKind::image;
  DType in = DType::uint8;
  DType out = DType::uint8;
  std::int32_t channels = 3;
  std::size_t drawn_bytes = 0;
  AugmentOutput output;
  std::vector<augment::UserFunction> functions;  ///< that steps name by their place
  std::vector<augment::SpecialPass> special;     ///< one a pass, once specialized; of images
};

namespace augment {

/// The steps before step `at`, which takes the mean of what they make for its contrast.
PassProgram before_contrast(const PassProgram& pass, std::int32_t at);

/// What a pass reads and writes, without where that lies.
PassMemory make_pass_memory(const AugmentPlan::Program& program, std::size_t pass);

// Scratch memory: sums of contrasts, and two places that passes hand images on in by turns.
std::size_t sums_bytes(const AugmentPlan::Program& program, std::size_t batch_size);
std::size_t place_bytes(const AugmentPlan::Program& program, std::size_t batch_size);

}  // namespace augment
}  // namespace slipstream
