#include "cli/predictions.h"

#include <ATen/ops/isnan.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/topk.h>

#include <algorithm>

#include "slipstream/core/error.h"

namespace slipstream {
namespace {

constexpr std::int64_t kMostNamedClasses = 5;
constexpr std::int64_t kMostClassesOfMasks = 256;

}  // namespace

std::vector<at::Tensor> to_prediction(const at::Tensor& output) {
  if (output.dim() == 4 && output.size(1) <= kMostClassesOfMasks)
    return {output.argmax(1).to(at::kByte), output.isnan().flatten(1).any(1)};
  if (output.dim() != 2)
    throw Error("an output of " + c10::str(output.sizes()) +
                " is not a prediction: the shape must be batch x classes for classes, or batch x "
                "classes x height x width with at most 256 classes for masks");
  const std::int64_t count = std::min(kMostNamedClasses, output.size(1));
  const auto [probabilities, classes] = at::topk(at::softmax(output.to(at::kFloat), 1), count, 1);
  return {probabilities, classes};
}

std::vector<Prediction> predictions_in(const std::vector<at::Tensor>& kept) {
  const bool are_masks = kept.front().scalar_type() == at::kByte;
  std::vector<Prediction> predictions(static_cast<std::size_t>(kept.front().size(0)));
  for (std::size_t i = 0; i < predictions.size(); ++i) {
    const at::Tensor sample = kept.front()[static_cast<std::int64_t>(i)].contiguous();
    if (are_masks) {
      const auto* bytes = reinterpret_cast<const std::byte*>(sample.const_data_ptr<std::uint8_t>());
      predictions[i].mask.assign({bytes, DType::uint8, {sample.size(0), sample.size(1)}});
      predictions[i].is_nan = kept[1][static_cast<std::int64_t>(i)].item<bool>();
      continue;
    }
    const at::Tensor numbers = kept[1][static_cast<std::int64_t>(i)];
    for (std::int64_t k = 0; k < sample.size(0); ++k)
      predictions[i].classes.emplace_back(numbers[k].item<std::int64_t>(), sample[k].item<float>());
    predictions[i].is_nan = sample.isnan().any().item<bool>();
  }
  return predictions;
}

}  // namespace slipstream
