#include "engine/augment_stage.h"

#include <ATen/ops/empty.h>
#include <c10/cuda/CUDAStream.h>

#include <algorithm>
#include <cstring>
#include <mutex>

#include "cuda/augment/augment.h"
#include "engine/scalar_type.h"

namespace slipstream {
namespace {

/// How one field is augmented.
struct Part {
  std::size_t field;
  FieldSpec output;
  std::optional<AugmentPlan> plan;  ///< set on a GPU
};

struct Stage {
  std::vector<Part> parts;
  std::once_flag is_specialized;  ///< set by the first batch, on its device
};

void specialize(std::vector<Part>& parts) {
  for (Part& part : parts) {
    if (part.plan) part.plan->specialize();
  }
}

std::vector<Part> make_parts(const SlabLayout& layout, bool on_gpu) {
  const DeviceChain& chain = *layout.device_chain;
  std::vector<Part> parts;
  for (std::size_t i = 0; i < chain.inputs().size(); ++i) {
    const FieldKind kind = chain.inputs()[i].kind;
    const bool is_touched =
        std::any_of(chain.steps().begin(), chain.steps().end(),
                    [&](const DeviceChain::Step& step) { return step.named.op.touches(kind); });
    // The host has already applied the geometry of the chain to boxes, so the device must not
    // change them again.
    if (!is_touched || kind == FieldKind::boxes || layout.fields[i].wire == Wire::host) continue;
    Part& part = parts.emplace_back(Part{i, chain.outputs()[i], std::nullopt});
    if (on_gpu) part.plan.emplace(chain, i);
  }
  return parts;
}

at::Tensor empty_for(const FieldSpec& spec, std::int64_t batch_size, at::Device device) {
  const auto options = at::TensorOptions().dtype(scalar_type(spec.dtype)).device(device);
  const Shape& shape = spec.shape;
  if (spec.kind == FieldKind::image)
    return at::empty({batch_size, shape[2], shape[0], shape[1]}, options,
                     at::MemoryFormat::ChannelsLast);
  std::vector<std::int64_t> sizes = {batch_size};
  for (std::size_t i = 0; i < shape.rank; ++i) sizes.push_back(shape[i]);
  return at::empty(sizes, options);
}

const std::byte* bytes_at(const at::Tensor& tensor) {
  return static_cast<const std::byte*>(tensor.const_data_ptr());
}

void run_on_gpu(const Part& part, const at::Tensor& from, const at::Tensor& drawn,
                const at::Tensor& to) {
  const auto batch_size = static_cast<std::size_t>(from.size(0));
  const at::Tensor scratch =
      at::empty({static_cast<std::int64_t>(part.plan->scratch_bytes(batch_size))}, drawn.options());
  const auto stream = c10::cuda::getCurrentCUDAStream(from.device().index());
  cuda::augment_async(*part.plan, batch_size, bytes_at(from), bytes_at(drawn),
                      static_cast<std::byte*>(scratch.mutable_data_ptr()),
                      static_cast<std::byte*>(to.mutable_data_ptr()),
                      cuda::StreamView(stream.stream()));
}

void run_on_cpu(const DeviceChain& chain, const Part& part, const at::Tensor& from,
                const at::Tensor& drawn, const at::Tensor& to) {
  HostArray values;
  HostArray spare;
  Scratch scratch;
  const FieldSpec& input = chain.inputs()[part.field];
  const std::size_t in_bytes = input.shape.elements() * size_bytes(input.dtype);
  auto* out = static_cast<std::byte*>(to.mutable_data_ptr());
  for (std::int64_t i = 0; i < from.size(0); ++i) {
    const auto sample = static_cast<std::size_t>(i);
    values.assign({bytes_at(from) + sample * in_bytes, input.dtype, input.shape});
    chain.apply(bytes_at(drawn) + sample * chain.drawn_bytes(), part.field, values, spare, scratch);
    const ConstArray result = values.view();
    std::memcpy(out + sample * result.bytes(), result.data, result.bytes());
  }
}

}  // namespace

FrozenStage augment_stage(const SlabLayout& layout, bool on_gpu) {
  const auto chain = layout.device_chain;
  const auto stage = std::make_shared<Stage>();
  stage->parts = make_parts(layout, on_gpu);
  const auto run = [chain, stage](Batch& batch) {
    const at::Tensor& drawn = batch.at(kDrawnField);
    std::call_once(stage->is_specialized, [&] { specialize(stage->parts); });
    for (const Part& part : stage->parts) {
      const at::Tensor from = batch.at(part.output.name);
      const at::Tensor to = empty_for(part.output, from.size(0), from.device());
      from.is_cuda() ? run_on_gpu(part, from, drawn, to)
                     : run_on_cpu(*chain, part, from, drawn, to);
      batch.set(part.output.name, to);
    }
  };
  return {nullptr, run};
}

}  // namespace slipstream
