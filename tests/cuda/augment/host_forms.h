#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "cuda/augment/executor.h"
#include "cuda/augment/passes.h"
#include "cuda/augment/plan.h"

// Code that both executors on the host use.
namespace slipstream::test {
namespace {
thread_local const AugmentPlan::Program* current_program = nullptr;
}
}  // namespace slipstream::test

// Replaces the device form of users' functions by their CPU implementation.
#define SLIPSTREAM_FUNCTIONS
namespace slipstream::augment {
namespace {

template <int C>
Pixel<C> call_function(std::int32_t function, const std::byte* drawn, Pixel<C> pixel) {
  const UserFunction& user =
      test::current_program->functions.at(static_cast<std::size_t>(function));
  HostArray out;
  Scratch scratch;
  user.named.op.apply(drawn, FieldKind::image,
                      {reinterpret_cast<const std::byte*>(pixel.value), DType::float32, {1, 1, C}},
                      out.reset(DType::float32, {1, 1, C}), scratch);
  std::memcpy(pixel.value, out.view().data, sizeof(pixel.value));
  return pixel;
}

}  // namespace
}  // namespace slipstream::augment

#include "cuda/augment/evaluate.h"

namespace slipstream::test {
namespace {

/// Computes the same as the kernel for masks.
void mask_pass(const augment::PassProgram& pass, const augment::PassMemory& memory,
               std::size_t bytes) {
  const std::int64_t pixels_in = std::int64_t{pass.in_height} * pass.in_width;
  const std::int64_t pixels_out = std::int64_t{pass.out_height} * pass.out_width;
  for (std::int64_t image = 0; image < memory.batch_size; ++image) {
    for (std::int32_t y = 0; y < pass.out_height; ++y) {
      for (std::int32_t x = 0; x < pass.out_width; ++x) {
        const augment::Origin at =
            augment::way_back(pass, memory.drawn + image * memory.drawn_bytes, 0, pass.count, y, x);
        const std::int64_t from = image * pixels_in + std::int64_t{at.y} * pass.in_width + at.x;
        const std::int64_t to = image * pixels_out + std::int64_t{y} * pass.out_width + x;
        std::byte* value = memory.to + to * static_cast<std::int64_t>(bytes);
        if (at.is_filled) {
          const std::uint64_t fill = pass.steps[at.next - 1].mask_fill;
          std::memcpy(value, &fill, bytes);
        } else {
          std::copy_n(memory.images + from * static_cast<std::int64_t>(bytes), bytes, value);
        }
      }
    }
  }
}

/// Runs all passes on a batch of masks; checks that they use no more scratch memory than the plan
/// requests.
Bytes run_masks(const AugmentPlan& plan, std::size_t batch_size, const Bytes& masks,
                const Bytes& drawn, std::size_t out_bytes) {
  const AugmentPlan::Program& program = plan.program();
  const std::size_t scratch_bytes = plan.scratch_bytes(batch_size);
  Bytes scratch(2 * scratch_bytes, std::byte{0x5a});
  Bytes to(out_bytes, std::byte{0xa5});
  augment::each_pass(program, batch_size, masks.data(), drawn.data(), scratch.data(), to.data(),
                     [&](std::size_t i, const augment::PassMemory& memory) {
                       mask_pass(program.passes[i], memory, size_bytes(program.in));
                     });
  const auto guard = scratch.begin() + static_cast<std::ptrdiff_t>(scratch_bytes);
  EXPECT_TRUE(std::all_of(guard, scratch.end(), [](std::byte b) { return b == std::byte{0x5a}; }))
      << "written beyond the end of the scratch memory";
  return to;
}

}  // namespace
}  // namespace slipstream::test
