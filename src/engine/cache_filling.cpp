#include "engine/cache_filling.h"

#include <ATen/core/grad_mode.h>

#include "engine/current_lane.h"

namespace slipstream {

std::vector<Fields> fill_cache(const BoundPipeline& bound, DeviceSteps& device_steps,
                               DeviceFeed& feed, const Plan& plan, const Cut& cut,
                               std::uint64_t first_batch, std::string& doing) {
  RunOptions until;
  until.last_step = cut.after;
  const std::vector<DeviceStep> steps = device_steps.of(plan, until);
  Lane& lane = *device_steps.on_lanes(plan, {}).back().lane;
  feed.seek(bound.pipeline.dataset(), bound.pipeline.transforms(),
            bound.loader_options(plan, first_batch), lane);
  const CurrentLane current(bound.context, lane);
  const at::NoGradGuard no_gradients;
  std::vector<Fields> cache;
  for (std::size_t item = 0; item < cut.items; ++item) {
    DeviceSlab slab;
    feed.copy(feed.take(), slab, lane);
    lane.synchronize();
    Batch batch(first_batch + item);
    for (const auto& [name, tensor] : slab.fields) batch.set(name, tensor);
    cache.push_back(batch.fields());
    for (auto& field : run_frozen(bound, steps, batch, doing))
      cache.back().push_back(std::move(field));
  }
  lane.synchronize();
  feed.stop();
  return cache;
}

}  // namespace slipstream
