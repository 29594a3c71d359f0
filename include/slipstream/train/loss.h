#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <string>

#include "slipstream/train/batch.h"

namespace slipstream {

/// A loss of one batch, all on the batch's device; nothing here waits for the device.
struct LossValue {
  at::Tensor loss;          ///< float32 scalar
  at::Tensor gradient;      ///< d loss / d output; undefined: loss.backward() is used
  at::Tensor correct;       ///< int64 scalar; undefined where there is no accuracy
  std::int64_t labels = 0;  ///< how many labels `correct` counts among
};

/// Which field goes into the trained module, and what its output costs.
struct Loss {
  std::string input;
  std::function<LossValue(const at::Tensor& output, const Batch& batch)> compute;
};

/// Mean softmax cross entropy over all labels. Output: batch x classes (labels: batch) or batch x
/// classes x height x width (labels: batch x height x width), float32, bf16 or (on a GPU) fp16, in
/// any dense layout; labels `batch[target]`, uint8 or int64, below the number of classes. Or soft
/// ones: float32 probabilities, batch x classes, for an output of that shape, which is correct
/// where its largest class (the first of equals) is the most probable one (likewise).
/// Deterministic: a fixed order of summation. One pass computes loss, gradient and accuracy.
Loss cross_entropy(std::string input, std::string target);

/// The kernel behind it, for either device; on a GPU asynchronous on the current stream.
LossValue cross_entropy_value(const at::Tensor& output, const at::Tensor& labels);

/// A loss of your own, differentiated by autograd.
Loss custom_loss(std::string input,
                 std::function<at::Tensor(const at::Tensor& output, const Batch& batch)> function);

}  // namespace slipstream
