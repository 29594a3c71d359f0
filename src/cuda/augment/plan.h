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
  std::vector<Range> ranges;  ///< input range of each pass
  FieldKind kind = FieldKind::image;
  DType in = DType::uint8;
  DType out = DType::uint8;
  std::int32_t channels = 3;
  std::size_t drawn_bytes = 0;
  AugmentOutput output;
  std::vector<augment::UserFunction> functions;  ///< referenced by steps through their index
  std::vector<augment::SpecialPass> special;  ///< one per pass after specialize(); only for images
};

namespace augment {

/// Returns the steps before step `at`, which needs Statistics of their output.
PassProgram before_statistics(const PassProgram& pass, std::int32_t at);

/// Returns the formats that a pass reads and writes, without pointers.
PassMemory make_pass_memory(const AugmentPlan::Program& program, std::size_t pass);

// Scratch memory: Statistics, and two buffers through which passes hand on images alternately.
std::size_t statistics_bytes(const AugmentPlan::Program& program, std::size_t batch_size);
std::size_t place_bytes(const AugmentPlan::Program& program, std::size_t batch_size);

}  // namespace augment
}  // namespace slipstream
