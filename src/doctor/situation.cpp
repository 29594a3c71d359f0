#include "doctor/situation.h"

#include <algorithm>

#include "doctor/cache_levels.h"
#include "doctor/free_memory.h"
#include "doctor/late_crop.h"
#include "loader/partial_decoding.h"
#include "loader/slab_layout.h"
#include "slipstream/core/cpu.h"
#include "slipstream/engine/pipeline.h"

namespace slipstream {
namespace {

/// Returns the first host transform that reads an image after the loader has decoded it.
std::optional<AnyOp> first_reader(const Dataset& dataset, const std::vector<NamedOp>& transforms,
                                  const DataLoaderOptions& options) {
  const SlabLayout layout = DataLoader::plan_layout(dataset, transforms, options);
  return first_reader(on_host(transforms, options.on_device), layout);
}

void note_late_crop(const Pipeline& pipeline, const std::vector<double>& bytes,
                    Situation& situation) {
  constexpr std::size_t kRead = 1;  // `bytes` begins with `read`, which is not in the chain
  std::vector<std::optional<AnyOp>> chain;
  for (const NamedOp& transform : pipeline.transforms()) chain.emplace_back(transform.op);
  const auto of_chain = std::span(bytes).subspan(std::min(kRead, bytes.size()));
  const std::optional<LateCrop> late = find_late_crop(chain, of_chain);
  if (!late) return;
  situation.crop = pipeline.transforms()[late->crop].name;
  situation.crop_moved_before = pipeline.transforms()[late->moved_before].name;
}

}  // namespace

std::string last_fixed_step(const Dataset& dataset, const std::vector<NamedOp>& transforms,
                            const DataLoaderOptions& options) {
  if (has_format(options.wire, Wire::jpeg)) return "read";
  const auto first = first_reader(dataset, transforms, options);
  const bool reads_parts =
      first && first->reads_region() && first->is_random() && options.decode.partial;
  std::string last = reads_parts || options.decode.scaled ? "read" : "decode";
  for (const NamedOp& transform : on_host(transforms, options.on_device)) {
    if (transform.op.is_random()) break;
    last = transform.name;
  }
  return last;
}

Situation make_situation(const Trainer& trainer, const Plan& plan,
                         const std::vector<double>& bytes) {
  const Pipeline& pipeline = trainer.pipeline();
  Situation situation;
  situation.plan = plan;
  situation.on_gpu = trainer.context().kind() == DeviceKind::cuda;
  situation.cores = usable_cores();
  situation.free_memory_bytes = free_memory_bytes();
  situation.samples = pipeline.dataset()->size();
  const DataLoaderOptions options = pipeline.loader_options(plan);
  situation.last_fixed_step = last_fixed_step(*pipeline.dataset(), pipeline.transforms(), options);
  situation.decodes_parts = decodes_parts(
      *pipeline.dataset(), first_reader(*pipeline.dataset(), pipeline.transforms(), options),
      decode_options(options));
  if (situation.on_gpu && plan.schedule.loader.on_device.empty())
    situation.on_device_from = first_worth_doing_on_device(pipeline, wire_formats(plan));
  note_late_crop(pipeline, bytes, situation);
  situation.has_frozen_stage =
      std::any_of(pipeline.stages().begin(), pipeline.stages().end(),
                  [](const auto& stage) { return stage.stage.module != nullptr; });
  const auto& transforms = pipeline.transforms();
  situation.frozen_input_is_fixed =
      pipeline.batch_ops().empty() &&
      std::none_of(transforms.begin(), transforms.end(),
                   [](const NamedOp& transform) { return transform.op.is_random(); });
  return situation;
}

std::vector<std::string> unused_fields(Trials& trials, const Plan& plan) {
  std::vector<std::string> unused;
  const SlabLayout layout = trials.trainer().make_loader(plan, std::nullopt)->layout();
  for (const SlabField& field : layout.fields) {
    const WireFormats wire = wire_formats(plan);
    const bool travels_plain = field.wire == Wire::plain && !wire.contains(field.spec.name);
    if (!travels_plain || field.spec.name == kDrawnField || field.spec.name == kMixField) continue;
    Plan without = plan;
    without.schedule.loader.wire[field.spec.name] = Wire::host;
    if (trials.trains(without, "training without '" + field.spec.name + "'"))
      unused.push_back(field.spec.name);
  }
  return unused;
}

Plan with_device_transforms(const Trainer& trainer, const Plan& plan, const std::string& first) {
  LoaderPlan loader = plan.schedule.loader;
  loader.on_device = first;
  return placed_plan(trainer.pipeline(), plan.schedule.mode, "cuda", trainer.context().kind(),
                     loader, plan.numerics);
}

}  // namespace slipstream
