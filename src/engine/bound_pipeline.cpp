#include "engine/bound_pipeline.h"

#include <ATen/core/grad_mode.h>
#include <c10/core/DeviceGuard.h>

#include "cuda/cuda.h"
#include "engine/context_parts.h"
#include "engine/evaluation_step.h"
#include "engine/unsaved.h"

namespace slipstream {

BoundPipeline::BoundPipeline(Pipeline declared, Context& where, const Plan::Numerics& how)
    : pipeline(std::move(declared)), context(where), numerics(how) {
  if (pipeline.train_name().empty())
    throw Refused("pipeline: it has no training stage; end it with .train(...)");
  layout({});
  place_modules();
}

void BoundPipeline::place_modules() {
  for (const auto& stage : pipeline.stages())
    if (stage.stage.module != nullptr) place(*stage.stage.module);
  const bool trains = dynamic_cast<const EvaluationStep*>(pipeline.train_step().get()) == nullptr;
  for (const auto& [name, module] : pipeline.train_step()->modules()) {
    place(*module);
    if (trains) module->train();
    const std::string prefix = name.empty() ? "" : name + ".";
    for (const auto& each : module->named_parameters()) {
      persistent.push_back({prefix + each.key(), each.value()});
      if (each.value().requires_grad()) parameters.push_back(each.value());
    }
    for (const auto& each : module->named_buffers()) {
      persistent.push_back({prefix + each.key(), each.value()});
      buffers.push_back(each.value());
    }
  }
  pipeline.train_step()->bind({.fp16 = numerics.precision == Precision::fp16});
}

void BoundPipeline::place(torch::nn::Module& module) const {
  module.to(context.device());
  const at::NoGradGuard no_gradients;
  const auto format =
      numerics.channels_last ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous;
  for (at::Tensor& parameter : module.parameters())
    if (parameter.dim() == 4) parameter.set_data(parameter.contiguous(format));
}

SlabLayout BoundPipeline::layout(const Plan& plan, std::optional<std::size_t> batch_size) const {
  DataLoaderOptions options = pipeline.loader_options(plan);
  options.batch_size = batch_size.value_or(options.batch_size);
  return DataLoader::plan_layout(*pipeline.dataset(), pipeline.transforms(), options);
}

DataLoaderOptions BoundPipeline::loader_options(const Plan& plan, std::uint64_t first_batch) const {
  DataLoaderOptions options = pipeline.loader_options(plan);
  options.first_batch = first_batch;
  options.memory = &get_host_memory(context, plan.schedule.loader.pin_memory);
  return options;
}

std::function<void()> BoundPipeline::keep_unsaved() const {
  std::vector<std::function<void()>> all;
  for (const NamedModule& each : pipeline.train_step()->modules())
    if (const auto* unsaved = dynamic_cast<const UnsavedState*>(each.module.get()))
      all.push_back(unsaved->keep_unsaved());
  return [all] {
    for (const auto& restore : all) restore();
  };
}

std::vector<std::uint64_t> BoundPipeline::find_fixed() const {
  std::vector<std::uint64_t> fixed;
  const auto add = [&](const at::Tensor& tensor) {
    fixed.push_back(reinterpret_cast<std::uintptr_t>(tensor.const_data_ptr()));
  };
  const auto add_module = [&](const torch::nn::Module& module) {
    for (const at::Tensor& tensor : module.parameters()) add(tensor);
    for (const at::Tensor& tensor : module.buffers()) add(tensor);
    for (const auto& each : module.modules()) fixed.push_back(each->is_training() ? 1 : 0);
    if (const auto* unsaved = dynamic_cast<const UnsavedState*>(&module))
      fixed.push_back(unsaved->digest_of_form());
  };
  for (const auto& stage : pipeline.stages())
    if (stage.stage.module != nullptr) add_module(*stage.stage.module);
  for (const NamedModule& each : pipeline.train_step()->modules()) add_module(*each.module);
  for (const NamedTensor& each : pipeline.train_step()->state()) add(each.tensor);
  return fixed;
}

void BoundPipeline::synchronize() const {
  if (!context.device().is_cuda()) return;
  const c10::DeviceGuard device(context.device());
  cuda::check_cuda(cudaDeviceSynchronize());
}

}  // namespace slipstream
