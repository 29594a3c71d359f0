#include "run/train_step.h"

#include <ATen/Context.h>
#include <ATen/core/grad_mode.h>
#include <c10/cuda/CUDAStream.h>

#include <cstring>
#include <mutex>

#include "core/fingerprint.h"
#include "cuda/cuda.h"
#include "run/context_parts.h"
#include "run/trial_guard.h"

namespace slipstream {

TrainStep::TrainStep(const BoundPipeline& bound, std::uint64_t first_step, std::size_t window)
    : bound_(bound),
      first_step_(first_step),
      has_buffers_(!bound.pipeline.train_stage().module->buffers().empty()),
      metrics_(window, Metrics{}, &host_memory_of(bound.context, true)) {}

void TrainStep::run(std::uint64_t batch, const Batch& fields) {
  const TrainStage& stage = bound_.pipeline.train_stage();
  const at::AutoGradMode gradients(true);
  key_generator(batch);
  is_midway_ = has_buffers_;
  const at::Tensor output = stage.forward(fields.at(stage.loss.input));
  const LossValue value = stage.loss.compute(output, fields);
  drop_gradients(bound_.parameters);
  if (value.gradient.defined())
    output.backward(value.gradient);
  else
    value.loss.backward();
  is_midway_ = true;
  {
    const at::NoGradGuard no_gradients;
    stage.optimizer->step();
  }
  drop_gradients(bound_.parameters);
  keep_metrics(batch, value);
  is_midway_ = false;
}

/// What the training stage draws from PyTorch's generator (dropout) depends on the step alone, in
/// every plan and after every restart.
void TrainStep::key_generator(std::uint64_t batch) const {
  at::Generator generator = at::globalContext().defaultGenerator(bound_.context.device());
  const std::lock_guard lock(generator.mutex());
  generator.set_current_seed(chain64(bound_.pipeline.options().seed, first_step_ + batch));
}

void TrainStep::keep_metrics(std::uint64_t batch, const LossValue& value) {
  Metrics& metrics = metrics_[batch % metrics_.size()];
  metrics.labels = value.labels;
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
}

TrainStep::Told TrainStep::told_of(std::uint64_t batch) const {
  const Metrics& metrics = metrics_[batch % metrics_.size()];
  Told told{metrics.loss};
  if (metrics.labels > 0)
    told.accuracy = static_cast<float>(static_cast<double>(metrics.correct) /
                                       static_cast<double>(metrics.labels));
  return told;
}

}  // namespace slipstream
