#include "engine/training_stage.h"

#include <ATen/Context.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <c10/cuda/CUDAStream.h>

#include <cstring>
#include <mutex>
#include <utility>

#include "core/fingerprint.h"
#include "cuda/cuda.h"
#include "engine/context_parts.h"
#include "engine/gradients.h"

namespace slipstream {

TrainingStage::TrainingStage(const BoundPipeline& bound, std::uint64_t first_step,
                             std::size_t window)
    : bound_(bound),
      first_step_(first_step),
      step_(*bound.pipeline.train_step()),
      metrics_(window, Metrics{}, &get_host_memory(bound.context, true)),
      outputs_(window) {}

namespace {

/// Returns a copy in host memory that is complete when the current stream has reached this point.
/// The memory is page-locked, because a copy to other memory would block the host.
at::Tensor on_host(const at::Tensor& tensor) {
  const at::Tensor values = tensor.detach().contiguous();
  const bool is_cuda = values.is_cuda();
  return at::empty(values.sizes(), values.options().device(at::kCPU).pinned_memory(is_cuda))
      .copy_(values, is_cuda);
}

}  // namespace

void TrainingStage::run(std::uint64_t batch, const Batch& fields, std::size_t slot,
                        StepGraphs* graphs, StepCall call) {
  const at::AutoGradMode gradients(true);
  key_generator(batch);
  is_midway_ = false;
  LossValue value;
  try {
    value = train(batch, fields, slot, graphs, std::move(call));
  } catch (...) {
    is_midway_ = !step_.is_intact();
    throw;
  }
  // The weights are already updated. If something below throws, the state is not that of a
  // completed step.
  is_midway_ = true;
  drop_gradients(bound_.parameters);
  keep_metrics(batch, value);
  is_midway_ = false;
}

LossValue TrainingStage::train(std::uint64_t batch, const Batch& fields, std::size_t slot,
                               StepGraphs* graphs, StepCall call) {
  if (graphs == nullptr || graphs->is_disabled()) return step_.train(fields);
  const GraphKey key = step_.graph_key(fields);
  if (!key.objection.empty()) {
    graphs->disable(key.objection);
    return step_.train(fields);
  }
  call.variant = key.text;
  call.work = [step = &step_, bound = &bound_](Batch& own) {
    StepResult result{{}, {}, step->train(own)};
    // These would keep memory that other graphs can use.
    result.value.gradient.reset();
    drop_gradients(bound->parameters);
    return result;
  };
  call.undo = [this, batch] {
    drop_gradients(bound_.parameters);
    key_generator(batch);
  };
  call.state = [step = &step_, bound = &bound_] {
    std::vector<at::Tensor> all;
    for (const NamedTensor& each : bound->persistent) all.push_back(each.tensor);
    for (const NamedTensor& each : step->state()) all.push_back(each.tensor);
    return all;
  };
  call.save = [bound = &bound_] { return bound->keep_unsaved(); };
  return graphs->run(fields, slot, call).value;
}

/// Seeds PyTorch's generator for the training stage, for example for dropout. The random numbers
/// depend only on the step, so they are the same in every plan and after every restart.
void TrainingStage::key_generator(std::uint64_t batch) const {
  at::Generator generator = at::globalContext().defaultGenerator(bound_.context.device());
  const std::lock_guard lock(generator.mutex());
  generator.set_current_seed(chain64(bound_.pipeline.options().seed, first_step_ + batch));
}

void TrainingStage::keep_metrics(std::uint64_t batch, const LossValue& value) {
  Metrics& metrics = metrics_[batch % metrics_.size()];
  metrics.labels = value.labels;
  if (!value.loss.defined()) throw Error("the training step returned no loss");
  const at::Tensor loss = value.loss.detach();
  const auto keep = [&](void* to, const at::Tensor& from, std::size_t bytes) {
    if (from.is_cuda())
      cuda::copy_async(to, from.const_data_ptr(), bytes,
                       cuda::StreamView(c10::cuda::getCurrentCUDAStream().stream()));
    else
      std::memcpy(to, from.const_data_ptr(), bytes);
  };
  keep(&metrics.loss, loss.scalar_type() == at::kFloat ? loss : loss.to(at::kFloat), sizeof(float));
  if (value.correct.defined()) keep(&metrics.correct, value.correct, sizeof(std::int64_t));
  for (const at::Tensor& output : value.outputs)
    outputs_[batch % outputs_.size()].push_back(on_host(output));
}

TrainingStage::BatchResult TrainingStage::take_result(std::uint64_t batch) {
  const Metrics& metrics = metrics_[batch % metrics_.size()];
  BatchResult batch_result{metrics.loss};
  batch_result.outputs = std::exchange(outputs_[batch % outputs_.size()], {});
  if (metrics.labels > 0)
    batch_result.accuracy = static_cast<float>(static_cast<double>(metrics.correct) /
                                               static_cast<double>(metrics.labels));
  return batch_result;
}

}  // namespace slipstream
