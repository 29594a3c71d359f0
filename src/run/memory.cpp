#include <ATen/core/grad_mode.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <deque>

#include "cuda/cuda.h"
#include "run/measures.h"
#include "run/numerics_scope.h"
#include "run/trainer_impl.h"
#include "run/trial_guard.h"

namespace slipstream {
namespace {

constexpr const char* kRemedy = "use a smaller batch size, image size or depth";
constexpr double kGiB = 1024.0 * 1024 * 1024;

std::string gib(double bytes) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.2f GiB", bytes / kGiB);
  return text;
}

std::size_t bytes_of(const Fields& fields) {
  std::size_t bytes = 0;
  for (const auto& field : fields) bytes += field.second.nbytes();
  return bytes;
}

Batch zero_batch(const DeviceSlab& slab) {
  Batch batch;
  for (const auto& [name, tensor] : slab.fields) {
    tensor.zero_();
    batch.set(name, tensor);
  }
  return batch;
}

}  // namespace

std::string plain_remedy() { return std::string("Remedy: ") + kRemedy + "."; }

std::string key_of(const Plan& plan, const std::vector<LaneBinding>& lanes) {
  std::string key = std::to_string(plan.schedule.depth) +
                    (plan.schedule.driver == Driver::threaded ? " threads" : " thread");
  for (const auto& [field, wire] : wire_formats(plan))
    key += "; " + field + " as " + std::string(name_of(wire));
  key += "; " + plan.schedule.loader.on_device;
  for (const LaneBinding& lane : lanes)
    for (const DeviceStep& step : lane.steps)
      key += (&step == &lane.steps.front() ? "; " : ", ") + step.name;
  return key;
}

std::size_t Trainer::Impl::warm_lanes(const Plan& plan, const std::vector<LaneBinding>& lanes) {
  const bool feeds = lanes.front().steps.front().kind == DeviceStep::Kind::copy;
  if (!context.device().is_cuda() || lanes.size() < 2 || !feeds) return 0;
  const auto known = warmed_.find(key_of(plan, lanes));
  if (known != warmed_.end()) return known->second;

  if (numerics.cudnn_benchmark) fill_lanes(plan, lanes);  // cuDNN's trials are not part of the need
  c10::cuda::CUDACachingAllocator::emptyCache();
  const std::size_t before = reserved_bytes(context.device());
  const std::size_t slot_bytes = fill_lanes(plan, lanes);
  const std::size_t grown = reserved_bytes(context.device()) - before;
  return warmed_[key_of(plan, lanes)] = grown - std::min(grown, slot_bytes);
}

std::size_t Trainer::Impl::fill_lanes(const Plan& plan, const std::vector<LaneBinding>& lanes) {
  const SlabLayout layout = layout_of(plan, pipeline.options().batch_size);
  const at::NoGradGuard no_gradients;
  std::vector<DeviceSlab> slabs;
  Batch batch;
  std::size_t slot_bytes = layout.device_bytes;
  for (std::size_t k = 0; k + 1 < lanes.size(); ++k) {
    const Context::CurrentLane current(context, *lanes[k].lane);
    if (k == 0) {
      for (std::size_t slot = 0; slot < plan.schedule.depth; ++slot)
        slabs.push_back(DeviceSlab::make(layout, context.device()));
      batch = zero_batch(slabs.front());
    }
    std::deque<Fields> held;
    for (std::size_t turn = 0; turn <= plan.schedule.depth; ++turn) {
      if (held.size() == plan.schedule.depth) held.pop_front();
      held.push_back(run_frozen(lanes[k].steps, batch));
    }
    lanes[k].lane->synchronize();
    slot_bytes += bytes_of(held.back());
    for (const auto& [name, tensor] : held.back()) batch.set(name, tensor);
  }
  return slot_bytes;
}

SlabLayout Trainer::Impl::layout_of(const Plan& plan, std::size_t batch_size) const {
  return DataLoader::plan_layout(
      *pipeline.dataset(), pipeline.transforms(), batch_size, wire_formats(plan), kJpegBytes,
      pipeline.transforms_from(plan.schedule.loader.on_device), pipeline.batch_ops());
}

Fields Trainer::Impl::run_frozen(const std::vector<DeviceStep>& steps, Batch batch) {
  const Batch before = batch;
  for (const DeviceStep& step : steps) {
    if (step.kind != DeviceStep::Kind::frozen) continue;
    preparing_ = "stage '" + step.name + "' ";
    const StageScope scope(numerics, context.device(), step.name);
    step.frozen->run(batch);
  }
  Fields made;
  for (const auto& [name, tensor] : batch.fields())
    if (!before.contains(name) || !before.at(name).is_same(tensor)) made.emplace_back(name, tensor);
  return made;
}

std::size_t Trainer::Impl::peak_of_batch(const Plan& plan, std::size_t batch_size) {
  const TrialGuard guard(*pipeline.train_stage().module, parameters);
  const DeviceSlab slab = DeviceSlab::make(layout_of(plan, batch_size), context.device());
  reset_peak(context.device());
  Batch batch = zero_batch(slab);
  const StageScope scope(numerics, context.device(), pipeline.train_name());
  {
    const at::NoGradGuard no_gradients;
    for (const DeviceStep& step : steps_of(plan, {}))
      if (step.frozen != nullptr) step.frozen->run(batch);
  }
  const at::AutoGradMode gradients(true);
  const TrainStage& train = pipeline.train_stage();
  const at::Tensor output = train.forward(batch.at(train.loss.input));
  const LossValue value = train.loss.compute(output, batch);
  value.gradient.defined() ? output.backward(value.gradient) : value.loss.backward();
  return peak_bytes(context.device());
}

std::string Trainer::Impl::memory_advice(const Plan& plan) {
  const std::size_t batch_size = pipeline.options().batch_size;
  if (!context.device().is_cuda()) return plain_remedy();
  const LanePlan& training = plan.schedule.lanes.back();
  // The stream alone: without a current lane, branches take no part of their trial's measurements.
  const auto& lane =
      dynamic_cast<const cuda::CudaLane&>(context.lane(training.steps.back(), training.priority));
  const c10::cuda::CUDAStreamGuard current(
      c10::cuda::getStreamFromExternal(lane.stream().get(), context.device().index()));
  try {
    c10::cuda::CUDACachingAllocator::emptyCache();
    std::size_t free = 0, total = 0;
    cuda::check_cuda(cudaMemGetInfo(&free, &total));
    const double fraction =
        c10::cuda::CUDACachingAllocator::getMemoryFraction(context.device().index());
    const double held = static_cast<double>(reserved_bytes(context.device()));
    const double available =
        std::min(static_cast<double>(free) + held, fraction * static_cast<double>(total));
    const auto one = static_cast<double>(peak_of_batch(plan, 1));
    const auto three = static_cast<double>(peak_of_batch(plan, 3));
    const double each = std::max(1.0, (three - one) / 2);
    const double base = std::max(0.0, one - each);
    const double slots = static_cast<double>(layout_of(plan, 1).device_bytes) *
                         static_cast<double>(plan.schedule.depth - 1);
    const double need = base + static_cast<double>(batch_size) * (each + slots);
    const double fits = std::floor((0.95 * available - base) / (each + slots));
    std::string advice = "The plan needs about " + gib(need) + " (batch size " +
                         std::to_string(batch_size) + ", depth " +
                         std::to_string(plan.schedule.depth) + "), available are " +
                         gib(available) + ". ";
    if (fits >= 1)
      return advice + "A batch size of " +
             std::to_string(static_cast<std::size_t>(std::min(
                 fits, static_cast<double>(batch_size) - 1 > 0 ? static_cast<double>(batch_size) - 1
                                                               : 1.0))) +
             " would fit.";
    return advice + "Not even a batch size of 1 fits: use a smaller image size or model.";
  } catch (const c10::OutOfMemoryError&) {
    return std::string("Not even a batch of 3 fits in what is free; ") + kRemedy +
           ", or stop what else uses the device.";
  } catch (const DeviceLost&) {
    throw;
  } catch (const std::exception&) {  // of a user's stage, on the trial batches
    return plain_remedy();
  }
}

}  // namespace slipstream
