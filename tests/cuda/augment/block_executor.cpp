#include <gtest/gtest.h>

#include "cuda/augment/host_block.h"
// The following headers contain device code.
#include "cuda/augment/host_forms.h"
#include "cuda/augment/passes.h"

#include "cuda/augment/blur_kernel.h"
#include "cuda/augment/kernels.h"
#include "cuda/augment/statistics_kernel.h"
#include "cuda/augment/tables.h"

// Runs the kernels on the host, one block after another.
namespace slipstream::test {
namespace {

using augment::LaunchShape;
using augment::PassMemory;
using augment::PassProgram;
using augment::Way;

constexpr augment::DeviceLimits kLimits = {232448, 233472};  // limits of an H200

template <typename Thread>
void run_grid(const LaunchShape& shape, const PassMemory& memory, int threads,
              const Thread& thread) {
  const auto blocks = static_cast<unsigned>(shape.grid.tiles * memory.batch_size);
  for (blockIdx = {0, 0, 0}; blockIdx.x < blocks; ++blockIdx.x) {
    run_block(static_cast<unsigned>(threads), shape.shared_bytes, thread);
  }
}

template <int C, Way kWay>
void run_image_pass(const PassProgram& pass, const PassMemory& memory, const LaunchShape& shape) {
  if (pass.stencil == pass.count) {
    return run_grid(shape, memory, augment::kPlainThreads,
                    [&] { augment::plain_block<C, kWay>(pass, memory, shape); });
  }
  run_grid(shape, memory, augment::kBlurThreads, [&] {
    pass.steps[pass.stencil].radius == 3 ? augment::blur_block<C, kWay, 3>(pass, memory, shape)
                                         : augment::blur_block<C, kWay, 0>(pass, memory, shape);
  });
}

template <typename Use>
void with_way(Way way, const Use& use) {
  switch (way) {
    case Way::direct:
      return use.template operator()<Way::direct>();
    case Way::linear:
      return use.template operator()<Way::linear>();
    case Way::warp:
      return use.template operator()<Way::warp>();
    case Way::filter:
      return use.template operator()<Way::filter>();
  }
}

template <int C>
void set_tables(const augment::ProgramStep& step, const PassMemory& memory) {
  for (std::int64_t image = 0; image < memory.batch_size; ++image) {
    for (std::int32_t level = 0; level < augment::kLevels; ++level) {
      augment::set_table(step, memory.drawn + image * memory.drawn_bytes, C, level,
                         augment::image_statistics(memory, step.statistic, image));
    }
  }
}

template <int C>
void run_pass(const PassProgram& pass, const PassMemory& memory) {
  std::fill_n(memory.statistics, pass.statistics * memory.batch_size * memory.statistics_bytes,
              std::byte{0});
  for (std::int32_t at = 0; at < pass.count; ++at) {
    const augment::ProgramStep& step = pass.steps[at];
    if (step.statistic < 0) continue;
    const PassProgram before = augment::before_statistics(pass, at);
    const LaunchShape shape = augment::launch_shape(before, C, memory.drawn_bytes, kLimits);
    with_way(augment::choose_way(before), [&]<Way kWay>() {
      run_grid(shape, memory, augment::kPlainThreads,
               [&] { augment::statistics_block<C, kWay>(before, step, memory, shape); });
    });
    if (augment::has_table(step.kind)) set_tables<C>(step, memory);
  }
  const LaunchShape shape = augment::launch_shape(pass, C, memory.drawn_bytes, kLimits);
  with_way(augment::choose_way(pass),
           [&]<Way kWay>() { run_image_pass<C, kWay>(pass, memory, shape); });
}

void run_images(const PassProgram& pass, const PassMemory& memory, std::int32_t channels) {
  switch (channels) {
    case 1:
      return run_pass<1>(pass, memory);
    case 2:
      return run_pass<2>(pass, memory);
    case 3:
      return run_pass<3>(pass, memory);
    default:
      return run_pass<4>(pass, memory);
  }
}

}  // namespace

Bytes run_plan(const AugmentPlan& plan, std::size_t batch_size, const Bytes& images,
               const Bytes& drawn, std::size_t out_bytes) {
  const AugmentPlan::Program& program = plan.program();
  if (program.kind == FieldKind::mask) return run_masks(plan, batch_size, images, drawn, out_bytes);
  current_program = &program;
  // without spare capacity, so that AddressSanitizer sees a read past the end
  const Bytes exact(images.begin(), images.end());
  Bytes scratch(plan.scratch_bytes(batch_size) + 1, std::byte{0x5a});
  Bytes to(out_bytes, std::byte{0xa5});
  augment::each_pass(program, batch_size, exact.data(), drawn.data(), scratch.data(), to.data(),
                     [&](std::size_t i, const PassMemory& memory) {
                       run_images(program.passes[i], memory, program.channels);
                     });
  return to;
}

void require_executor() {}

}  // namespace slipstream::test
