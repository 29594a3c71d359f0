#include "engine/mix_stage.h"

#include <ATen/ops/empty.h>
#include <c10/cuda/CUDAStream.h>

#include "cuda/augment/mix_kernel.h"

namespace slipstream {
namespace {

void run(const BatchChain& chain, const std::string& image, const std::string& label,
         Batch& batch) {
  const MixForm& form = chain.form();
  const at::Tensor& labels = batch.at(label);
  const at::Tensor targets =
      at::empty({labels.size(0), form.classes}, labels.options().dtype(at::kFloat));
  MixBatch memory{.size = labels.size(0),
                  .labels = labels.const_data_ptr(),
                  .targets = targets.mutable_data_ptr<float>()};
  at::Tensor mixed;
  if (chain.image()) {
    const at::Tensor& images = batch.at(image);
    mixed = at::empty(images.sizes(), images.options(), at::MemoryFormat::ChannelsLast);
    memory.drawn = static_cast<const DrawnMix*>(batch.at(kMixField).const_data_ptr());
    memory.images = images.const_data_ptr();
    memory.mixed = mixed.mutable_data_ptr();
  }
  if (labels.is_cuda()) {
    const auto stream = c10::cuda::getCurrentCUDAStream(labels.device().index());
    cuda::mix_async(form, memory, cuda::StreamView(stream.stream()));
  } else {
    mix(form, memory);
  }
  if (chain.image()) batch.set(image, mixed);
  batch.set(label, targets);
}

}  // namespace

FrozenStage mix_stage(const SlabLayout& layout) {
  const auto chain = layout.batch_chain;
  const std::string image = chain->image() ? layout.fields[*chain->image()].spec.name : "";
  const std::string label = layout.fields[chain->label()].spec.name;
  return {nullptr, [=](Batch& batch) { run(*chain, image, label, batch); }};
}

}  // namespace slipstream
