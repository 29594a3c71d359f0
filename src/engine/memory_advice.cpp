#include "engine/memory_advice.h"

#include <ATen/core/grad_mode.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "cuda/cuda.h"
#include "engine/context_parts.h"
#include "engine/device_slab.h"
#include "engine/measures.h"
#include "engine/numerics_scope.h"
#include "engine/supervised_step.h"
#include "engine/trial_guard.h"

namespace slipstream {
namespace {

constexpr const char* kRemedy = "use a smaller batch size, image size or depth";
constexpr double kGiB = 1024.0 * 1024 * 1024;

std::string gib(double bytes) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.2f GiB", bytes / kGiB);
  return text;
}

std::size_t peak_of_batch(const BoundPipeline& bound, SupervisedStep& train, DeviceSteps& steps,
                          const Plan& plan, std::size_t batch_size) {
  const c10::Device device = bound.context.device();
  const TrialGuard guard(bound.buffers, bound.parameters, bound.keep_unsaved());
  const DeviceSlab slab = DeviceSlab::make(bound.layout(plan, batch_size), device);
  reset_peak(device);
  Batch batch = zero_batch(slab);
  const StageScope scope(bound.numerics, device, bound.pipeline.train_name());
  {
    const at::NoGradGuard no_gradients;
    for (const DeviceStep& step : steps.of(plan, {}))
      if (step.frozen != nullptr) step.frozen->run(batch);
  }
  const at::AutoGradMode gradients(true);
  train.differentiate(batch);
  return peak_bytes(device);
}

/// Returns how much memory this process could allocate after PyTorch's allocator has freed its
/// cache.
double available_bytes(c10::Device device) {
  c10::cuda::CUDACachingAllocator::emptyCache();
  std::size_t free = 0, total = 0;
  cuda::check_cuda(cudaMemGetInfo(&free, &total));
  const double fraction = c10::cuda::CUDACachingAllocator::getMemoryFraction(device.index());
  const auto held = static_cast<double>(reserved_bytes(device));
  return std::min(static_cast<double>(free) + held, fraction * static_cast<double>(total));
}

std::string measured_advice(const BoundPipeline& bound, SupervisedStep& train, DeviceSteps& steps,
                            const Plan& plan) {
  const std::size_t batch_size = bound.pipeline.options().batch_size;
  const double available = available_bytes(bound.context.device());
  // The need grows linearly with the batch size. Two small batches give the slope and the constant
  // part without running out of memory again.
  const auto one = static_cast<double>(peak_of_batch(bound, train, steps, plan, 1));
  const auto three = static_cast<double>(peak_of_batch(bound, train, steps, plan, 3));
  const double each = std::max(1.0, (three - one) / 2);
  const double base = std::max(0.0, one - each);
  // A trial batch needs one slab, but a run has `depth` of them.
  const double slots = static_cast<double>(bound.layout(plan, 1).device_bytes) *
                       static_cast<double>(plan.schedule.depth - 1);
  const double need = base + static_cast<double>(batch_size) * (each + slots);
  const double fits = std::floor((0.95 * available - base) / (each + slots));
  const std::string advice = "The plan needs about " + gib(need) + " (batch size " +
                             std::to_string(batch_size) + ", depth " +
                             std::to_string(plan.schedule.depth) + "), available are " +
                             gib(available) + ". ";
  if (fits < 1)
    return advice + "Not even a batch size of 1 fits: use a smaller image size or model.";
  const double smaller = std::max(1.0, static_cast<double>(batch_size) - 1);
  return advice + "A batch size of " +
         std::to_string(static_cast<std::size_t>(std::min(fits, smaller))) + " would fit.";
}

}  // namespace

std::string plain_remedy() { return std::string("Remedy: ") + kRemedy + "."; }

std::string memory_advice(const BoundPipeline& bound, DeviceSteps& steps, const Plan& plan) {
  Context& context = bound.context;
  auto* const train = dynamic_cast<SupervisedStep*>(bound.pipeline.train_step().get());
  if (!context.device().is_cuda() || train == nullptr) return plain_remedy();
  const LanePlan& training = plan.schedule.lanes.back();
  // Only the stream is made current, not the lane. Without a current lane, a ForkJoin does not
  // include these batches in its own measurements.
  const auto& lane = dynamic_cast<const cuda::CudaLane&>(
      get_lane(context, training.steps.back(), training.priority));
  const c10::cuda::CUDAStreamGuard current(
      c10::cuda::getStreamFromExternal(lane.stream().get(), context.device().index()));
  try {
    return measured_advice(bound, *train, steps, plan);
  } catch (const c10::OutOfMemoryError&) {
    return std::string("Not even a batch of 3 fits into the free memory; ") + kRemedy +
           ", or stop other programs that use the device.";
  } catch (const DeviceLost&) {
    throw;
  } catch (const std::exception&) {  // thrown by a user's stage for a trial batch
    return plain_remedy();
  }
}

}  // namespace slipstream
