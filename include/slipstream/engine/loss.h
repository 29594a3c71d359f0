#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <string>
#include <vector>

#include "slipstream/engine/batch.h"

namespace slipstream {

/// The loss of one batch. All tensors are on the batch's device unless stated otherwise, and
/// computing them does not wait for the device.
struct LossValue {
  at::Tensor loss;  ///< float32 scalar
  /// D loss / d output, shaped like the output; if undefined, loss.backward() is called.
  at::Tensor gradient;
  /// int64 scalar: number of correctly predicted labels; undefined: no accuracy
  at::Tensor correct;
  std::int64_t labels = 0;               ///< the total number of labels that `correct` refers to
  std::vector<at::Tensor> outputs = {};  ///< tensors for RunOptions::on_outputs, in host memory
};

/// The input field of the trained module, and how its output becomes a loss.
struct Loss {
  std::string input;  ///< name of the field in the batch
  std::function<LossValue(const at::Tensor& output, const Batch& batch)> compute;
};

/// The mean softmax cross entropy over all labels, for the trained module's output and the labels
/// batch[target]. The output is float32, bf16 or (on a GPU) fp16, in any dense layout: batch x
/// classes with labels of shape batch, or batch x classes x height x width with labels of shape
/// batch x height x width. Labels are uint8 or int64 class numbers below the number of classes. For
/// an output of batch x classes they may be float32 probabilities, batch x classes. compute()
/// throws Error if batch.classes(target) is larger than the number of classes in the output. A
/// label that is not below the number of classes makes the loss NaN.
///
/// A label counts as predicted if its class has the largest output; among equal outputs, the first
/// class counts. For probabilities, the label is the most probable class; among equal
/// probabilities, the first. The order of summation is fixed, so the result is deterministic. Loss,
/// gradient and accuracy are computed together.
Loss cross_entropy(std::string input, std::string target);

/// Returns the value of cross_entropy() for `output` and `labels`, which must be on the same
/// device. On a GPU the work is enqueued on the current stream, and the call does not wait. Throws
/// Error if shapes or dtypes do not fit.
LossValue cross_entropy_value(const at::Tensor& output, const at::Tensor& labels);

/// A score over a whole data set, such as top_k(). Its counts are added up on the device, batch by
/// batch, in float64, which represents counts up to 2^53 exactly.
struct Metric {
  std::string name;                 ///< such as "top5"
  std::vector<std::int64_t> shape;  ///< shape of the counts, which start as zeros
  /// Adds the counts of a batch to `counts`. It is called on the stream of the last stage, without
  /// gradients, and must not wait for the device. `output` and the fields contain only the samples
  /// that count: samples that merely complete the last batch of an epoch have been removed.
  std::function<void(at::Tensor& counts, const at::Tensor& output, const Batch& batch)> add;
  /// Computes the score from the counts of all batches, which are in host memory.
  std::function<double(const at::Tensor& counts)> value;
};

/// Returns a metric named "top5" if k is 5: the share of samples whose label batch[target] is among
/// the `k` classes with the largest outputs; among equal outputs, the first classes count. The
/// output must be batch x classes.
Metric top_k(std::string target, std::int64_t k);
/// Returns the metric "class_accuracy": the share of each class's labels that is predicted,
/// averaged over classes. Its counts are a confusion matrix: [i, j] is the number of labels i for
/// which class j has the largest output. The output is batch x classes or batch x classes x height
/// x width. Classes without labels are left out of the mean.
Metric class_accuracy(std::string target, std::int64_t classes);
/// Returns the metric "mean_iou": intersection / union of labels and predictions, averaged over
/// classes. The counts and outputs are those of class_accuracy(). Classes with neither labels nor
/// predictions are left out of the mean.
Metric mean_iou(std::string target, std::int64_t classes);

/// Returns a custom loss, differentiated by autograd. `function` returns a float32 scalar. It is
/// called on the stream of the training stage and should not wait for the device. No accuracy is
/// computed.
Loss custom_loss(std::string input,
                 std::function<at::Tensor(const at::Tensor& output, const Batch& batch)> function);

}  // namespace slipstream
