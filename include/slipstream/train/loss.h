#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <string>

#include "slipstream/train/batch.h"

namespace slipstream {

/// The loss of one batch. All tensors are on the batch's device, and nothing waits for the device.
struct LossValue {
  at::Tensor loss;          ///< float32 scalar
  at::Tensor gradient;      ///< d loss / d output, of its shape; undefined: loss.backward() is used
  at::Tensor correct;       ///< int64 scalar: labels predicted; undefined: there is no accuracy
  std::int64_t labels = 0;  ///< the number of labels that `correct` is a part of
};

/// Which field goes into the trained module, and how its output becomes a loss.
struct Loss {
  std::string input;  ///< name of the field in the batch
  std::function<LossValue(const at::Tensor& output, const Batch& batch)> compute;
};

/// The mean softmax cross entropy over all labels, for the trained module's output and the labels
/// batch[target]. The output is float32, bf16 or (on a GPU) fp16, in any dense layout: batch x
/// classes with labels of shape batch, or batch x classes x height x width with labels of shape
/// batch x height x width. Labels are uint8 or int64 class numbers below the number of classes. For
/// an output of batch x classes they may be float32 probabilities, batch x classes.
///
/// A label is predicted where its class has the largest output; of equal outputs the first counts.
/// With probabilities the label's class is the most probable one, of equal ones the first. The
/// order of summation is fixed, so the result is deterministic. One pass computes loss, gradient
/// and accuracy.
Loss cross_entropy(std::string input, std::string target);

/// The value of cross_entropy() for `output` and `labels` on one device. On a GPU it is enqueued on
/// the current stream and does not wait. Throws Error where shapes or types do not fit.
LossValue cross_entropy_value(const at::Tensor& output, const at::Tensor& labels);

/// A loss of your own, differentiated by autograd. `function` returns a float32 scalar. It is
/// called on the stream of the training stage and should not wait for the device. There is no
/// accuracy.
Loss custom_loss(std::string input,
                 std::function<at::Tensor(const at::Tensor& output, const Batch& batch)> function);

}  // namespace slipstream
