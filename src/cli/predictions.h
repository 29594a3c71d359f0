#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "tools/preview_sheet.h"

namespace slipstream {

/// Reduces a batch of outputs to the predictions, for Evaluator::predict(). For outputs of batch x
/// classes: the probabilities and numbers of the most probable classes. For batch x classes x
/// height x width: the class of each pixel, and which samples contain a NaN. Throws Error for other
/// shapes.
std::vector<at::Tensor> to_prediction(const at::Tensor& output);

/// Splits the result of to_prediction(), in host memory, into samples.
std::vector<Prediction> predictions_in(const std::vector<at::Tensor>& kept);

}  // namespace slipstream
