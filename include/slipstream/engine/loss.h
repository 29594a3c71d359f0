#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <string>
#include <vector>

#include "slipstream/engine/batch.h"

namespace slipstream {

/// The loss of one batch. All tensors are on the batch's device, and nothing waits for the device.
struct LossValue {
  at::Tensor loss;          ///< float32 scalar
  at::Tensor gradient;      ///< d loss / d output, of its shape; undefined: loss.backward() is used
  at::Tensor correct;       ///< int64 scalar: labels predicted; undefined: there is no accuracy
  std::int64_t labels = 0;  ///< the number of labels that `correct` is a part of
  std::vector<at::Tensor> outputs = {};  ///< what RunOptions::on_outputs takes, in host memory
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
/// an output of batch x classes they may be float32 probabilities, batch x classes. compute()
/// throws Error where batch.classes(target) says that there are more classes than the output has.
/// Other labels that are not below the number of classes make the loss NaN.
///
/// A label is predicted where its class has the largest output; of equal outputs the first counts.
/// With probabilities the label's class is the most probable one, of equal ones the first. The
/// order of summation is fixed, so the result is deterministic. One pass computes loss, gradient
/// and accuracy.
Loss cross_entropy(std::string input, std::string target);

/// The value of cross_entropy() for `output` and `labels` on one device. On a GPU it is enqueued on
/// the current stream and does not wait. Throws Error where shapes or types do not fit.
LossValue cross_entropy_value(const at::Tensor& output, const at::Tensor& labels);

/// A score over a whole data set, such as top_k(). What it counts is added up on the device, batch
/// by batch, in float64, in which counts up to 2^53 are exact.
struct Metric {
  std::string name;                 ///< such as "top5"
  std::vector<std::int64_t> shape;  ///< of the counts, which are zeros at first
  /// Adds what a batch counts. It is called on the stream of the last stage, without gradients, and
  /// must not wait for the device. `output` and the fields hold the samples of the batch alone that
  /// count: those that fill up the last batch of an epoch are not there.
  std::function<void(at::Tensor& counts, const at::Tensor& output, const Batch& batch)> add;
  /// The score, of all counts, which are in host memory.
  std::function<double(const at::Tensor& counts)> value;
};

/// The share of samples whose label batch[target] is among the `k` classes with the largest
/// outputs, of equal outputs the first; "top5" for 5. For an output of batch x classes.
Metric top_k(std::string target, std::int64_t k);
/// The mean over classes of the share of each class's labels that is predicted: "class_accuracy".
/// Its counts are those of a confusion matrix: [i, j] labels i for which j is predicted, the class
/// with the largest output. For outputs of batch x classes, and of batch x classes x height x
/// width. Classes without a label do not count.
Metric class_accuracy(std::string target, std::int64_t classes);
/// The mean over classes of intersection / union of labels and predictions: "mean_iou". Counts as
/// above; classes with neither labels nor predictions do not count.
Metric mean_iou(std::string target, std::int64_t classes);

/// A loss of your own, differentiated by autograd. `function` returns a float32 scalar. It is
/// called on the stream of the training stage and should not wait for the device. There is no
/// accuracy.
Loss custom_loss(std::string input,
                 std::function<at::Tensor(const at::Tensor& output, const Batch& batch)> function);

}  // namespace slipstream
