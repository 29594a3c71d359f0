#include "engine/lane_warm_up.h"

#include <ATen/core/grad_mode.h>
#include <c10/cuda/CUDACachingAllocator.h>

#include <algorithm>
#include <deque>

#include "engine/current_lane.h"
#include "engine/device_slab.h"
#include "engine/device_steps.h"
#include "engine/measures.h"

namespace slipstream {
namespace {

std::string warm_up_key(const Plan& plan, const std::vector<LaneBinding>& lanes) {
  std::string key = std::to_string(plan.schedule.depth) +
                    (plan.schedule.driver == Driver::threaded ? " threads" : " thread");
  for (const auto& [field, wire] : wire_formats(plan))
    key += "; " + field + " as " + std::string(to_string(wire));
  key += "; " + plan.schedule.loader.on_device;
  for (const LaneBinding& lane : lanes)
    for (const DeviceStep& step : lane.steps)
      key += (&step == &lane.steps.front() ? "; " : ", ") + step.name;
  return key;
}

bool take_zeros(const std::vector<LaneBinding>& lanes) {
  for (const LaneBinding& lane : lanes)
    for (const DeviceStep& step : lane.steps)
      if (step.frozen != nullptr && !step.frozen->takes_zeros) return false;
  return true;
}

}  // namespace

std::size_t LaneWarmUp::warm(const Plan& plan, const std::vector<LaneBinding>& lanes,
                             std::string& doing) {
  const c10::Device device = bound_.context.device();
  const bool feeds = lanes.front().steps.front().kind == DeviceStep::Kind::copy;
  if (!device.is_cuda() || lanes.size() < 2 || !feeds || !take_zeros(lanes)) return 0;
  const auto known = warmed_.find(warm_up_key(plan, lanes));
  if (known != warmed_.end()) return known->second;

  // cuDNN's trials allocate workspaces that later runs do not need, so they run before the
  // measurement.
  if (bound_.numerics.cudnn_benchmark) fill(plan, lanes, doing);
  // With cached blocks, the allocator would reserve nothing new for the lanes, and the growth of
  // the reserved memory could not be measured.
  c10::cuda::CUDACachingAllocator::emptyCache();
  const std::size_t before = reserved_bytes(device);
  const std::size_t slot_bytes = fill(plan, lanes, doing);
  const std::size_t grown = reserved_bytes(device) - before;
  return warmed_[warm_up_key(plan, lanes)] = grown - std::min(grown, slot_bytes);
}

std::size_t LaneWarmUp::fill(const Plan& plan, const std::vector<LaneBinding>& lanes,
                             std::string& doing) const {
  const SlabLayout layout = bound_.layout(plan);
  const at::NoGradGuard no_gradients;
  std::vector<DeviceSlab> slabs;
  Batch batch;
  std::size_t slot_bytes = layout.device_bytes;
  for (std::size_t k = 0; k + 1 < lanes.size(); ++k) {
    const CurrentLane current(bound_.context, *lanes[k].lane);
    if (k == 0) {
      for (std::size_t slot = 0; slot < plan.schedule.depth; ++slot)
        slabs.push_back(DeviceSlab::make(layout, bound_.context.device()));
      batch = zero_batch(slabs.front());
    }
    std::deque<Fields> held;
    // One turn more than `depth`, so that a slot is also refilled once, as in a run.
    for (std::size_t turn = 0; turn <= plan.schedule.depth; ++turn) {
      if (held.size() == plan.schedule.depth) held.pop_front();
      held.push_back(run_frozen(bound_, lanes[k].steps, batch, doing));
    }
    lanes[k].lane->synchronize();
    slot_bytes += count_bytes(held.back());
    for (const auto& [name, tensor] : held.back()) batch.set(name, tensor);
  }
  return slot_bytes;
}

bool LaneWarmUp::must_tune(const Plan& plan, const std::vector<LaneBinding>& lanes) const {
  return bound_.numerics.cudnn_benchmark && !tuned_.contains(warm_up_key(plan, lanes));
}

void LaneWarmUp::set_tuned(const Plan& plan, const std::vector<LaneBinding>& lanes) {
  tuned_.insert(warm_up_key(plan, lanes));
}

}  // namespace slipstream
