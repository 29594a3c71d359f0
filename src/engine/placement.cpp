#include "engine/placement.h"

#include <algorithm>

#include "engine/augment_stage.h"
#include "slipstream/engine/pipeline.h"
#include "slipstream/transforms/transforms.h"

namespace slipstream {
namespace {

struct FirstOnDevice {
  std::string worthwhile, possible;  ///< names of transforms; "" if there is none
  std::string reason;                ///< why there is none
};

FirstOnDevice find_first(const Dataset& dataset, const std::vector<NamedOp>& transforms,
                         DataLoaderOptions options) {
  options.batch_ops = {};
  FirstOnDevice first;
  first.reason = "the pipeline has no transforms";
  for (std::size_t i = 0; i < transforms.size(); ++i) {
    try {
      options.on_device = transforms.size() - i;
      const SlabLayout layout = DataLoader::plan_layout(dataset, transforms, options);
      static_cast<void>(augment_stage(layout, true));
      // A crop only copies, which is no faster on the device. A resized image is smaller to cache
      // and to copy, so resizing stays on the host.
      const bool has_canvas = layout.device_chain->before_canvas() != nullptr;
      if (first.possible.empty()) first.possible = transforms[i].name;
      if (has_canvas && transforms[i].op.get_if<RandomResizedCrop>() == nullptr) continue;
      first.worthwhile = transforms[i].name;
      break;
    } catch (const Refused& refused) {
      first.reason = refused.what();
    }
  }
  return first;
}

FirstOnDevice find_first(const Pipeline& pipeline, const WireFormats& wire) {
  DataLoaderOptions options = pipeline.loader_options({});
  options.wire = wire;
  return find_first(*pipeline.dataset(), pipeline.transforms(), std::move(options));
}

std::string possible_first(const FirstOnDevice& first) {
  if (!first.worthwhile.empty()) return first.worthwhile;
  if (!first.possible.empty()) return first.possible;
  throw Refused("the device can apply none of the transforms: " + first.reason);
}

}  // namespace

std::string first_on_device(const Pipeline& pipeline, const WireFormats& wire) {
  return possible_first(find_first(pipeline, wire));
}

std::size_t transforms_on_device(const Dataset& dataset, const std::vector<NamedOp>& transforms,
                                 const DataLoaderOptions& options) {
  const std::string name = possible_first(find_first(dataset, transforms, options));
  const auto first = std::find_if(transforms.begin(), transforms.end(),
                                  [&](const NamedOp& each) { return each.name == name; });
  return static_cast<std::size_t>(transforms.end() - first);
}

std::string first_worth_doing_on_device(const Pipeline& pipeline, const WireFormats& wire) {
  return find_first(pipeline, wire).worthwhile;
}

void check_transforms_device(const std::string& transforms_device, DeviceKind device) {
  if (transforms_device != "cpu" && transforms_device != "cuda")
    throw Refused(unknown_name("transforms device", transforms_device, {"cpu", "cuda"}));
  if (transforms_device == "cuda" && device == DeviceKind::cpu)
    throw Refused("the transforms device is cuda, but the training's device is the CPU: give cpu");
}

Plan placed_plan(const Pipeline& pipeline, const std::string& mode,
                 const std::string& transforms_device, DeviceKind device, LoaderPlan loader,
                 const Plan::Numerics& numerics) {
  check_transforms_device(transforms_device, DeviceKind::cuda);
  if (transforms_device == "cpu") {
    loader.on_device.clear();
  } else if (loader.on_device.empty()) {
    Plan travels;
    travels.schedule.loader.wire = loader.wire;
    travels.numerics.wire = numerics.wire;
    loader.on_device = first_on_device(pipeline, wire_formats(travels));
  }
  Plan plan = make_plan(mode, pipeline.device_steps(loader.on_device), device, loader, numerics);
  if (!pipeline.batch_ops().empty()) join_next_lane(plan, kAugmentStep);
  return plan;
}

Plan evaluation_plan(const Pipeline& pipeline, const std::string& of_training,
                     const std::string& transforms_device, DeviceKind device, LoaderPlan loader,
                     const Plan::Numerics& numerics) {
  loader.on_device.clear();
  // Scores depend on numbers of the host, such as the number of samples in a batch.
  const std::string mode = of_training == "graph" ? "pipelined" : of_training;
  try {
    return placed_plan(pipeline, mode, transforms_device, device, loader, numerics);
  } catch (const Refused&) {
    return placed_plan(pipeline, mode, "cpu", device, loader, numerics);
  }
}

}  // namespace slipstream
