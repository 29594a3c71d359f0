#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "tools/preview_sheet.h"

namespace slipstream {

/// What is kept of a batch of outputs, for Evaluator::predict(). Of batch x classes: the
/// probabilities and numbers of the most probable classes. Of batch x classes x height x width: the
/// class of each pixel, and which samples have a NaN. Throws Error for outputs of another form.
std::vector<at::Tensor> to_prediction(const at::Tensor& output);

/// What was kept, in host memory, sample by sample.
std::vector<Prediction> predictions_in(const std::vector<at::Tensor>& kept);

}  // namespace slipstream
