#include <ATen/ops/arange.h>
#include <ATen/ops/ones.h>

#include <algorithm>

#include "slipstream/core/error.h"
#include "slipstream/engine/loss.h"

namespace slipstream {
namespace {

/// Returns the labels as whole numbers, one for each sample or pixel.
at::Tensor target_labels(const Batch& batch, const std::string& target) {
  return batch.at(target).to(at::kLong);
}

void add_to_confusion(at::Tensor& counts, const at::Tensor& output, const at::Tensor& labels) {
  const at::Tensor places = (labels * counts.size(1) + output.argmax(1)).reshape(-1);
  counts.view(-1).scatter_add_(0, places, at::ones(places.sizes(), counts.options()));
}

Metric of_confusion(std::string name, std::string target, std::int64_t classes,
                    std::function<double(const at::Tensor& counts)> value) {
  const std::string wrong = name + ": ";
  auto add = [target = std::move(target), wrong](at::Tensor& counts, const at::Tensor& output,
                                                 const Batch& batch) {
    if (output.dim() < 2 || output.size(1) != counts.size(1))
      throw Error(wrong + "an output of " + c10::str(output.sizes()) + " does not have " +
                  std::to_string(counts.size(1)) + " classes in its second dimension");
    add_to_confusion(counts, output, target_labels(batch, target));
  };
  return {std::move(name), {classes, classes}, std::move(add), std::move(value)};
}

/// Returns the mean of part / whole over the entries where the whole is not 0; 0 if it is 0
/// everywhere.
double mean_share(const at::Tensor& part, const at::Tensor& whole) {
  const at::Tensor counts = whole > 0;
  if (!counts.any().item<bool>()) return 0;
  return (part.masked_select(counts) / whole.masked_select(counts)).mean().item<double>();
}

}  // namespace

Metric top_k(std::string target, std::int64_t k) {
  if (k < 1) throw Refused("top_k: k must be at least 1");
  auto add = [target = std::move(target), k](at::Tensor& counts, const at::Tensor& output,
                                             const Batch& batch) {
    const at::Tensor labels = target_labels(batch, target).unsqueeze(1);
    const at::Tensor own = output.gather(1, labels);
    const at::Tensor places = at::arange(output.size(1), labels.options()).unsqueeze(0);
    const at::Tensor is_ahead = (output > own).logical_or_((output == own) & (places < labels));
    // Comparisons with NaN are false, so an output of NaN would seem to have no larger outputs.
    // Such a sample does not count as correct.
    const at::Tensor is_in = (is_ahead.sum(1) < k) & (own == own).squeeze(1);
    counts.select(0, 0).add_(is_in.sum());
    counts.select(0, 1).add_(output.size(0));
  };
  return {"top" + std::to_string(k), {2}, std::move(add), [](const at::Tensor& counts) {
            const double samples = counts[1].item<double>();
            return samples > 0 ? counts[0].item<double>() / samples : 0;
          }};
}

Metric class_accuracy(std::string target, std::int64_t classes) {
  return of_confusion("class_accuracy", std::move(target), classes, [](const at::Tensor& counts) {
    return mean_share(counts.diagonal(), counts.sum(1));
  });
}

Metric mean_iou(std::string target, std::int64_t classes) {
  return of_confusion("mean_iou", std::move(target), classes, [](const at::Tensor& counts) {
    const at::Tensor both = counts.diagonal();
    return mean_share(both, counts.sum(0) + counts.sum(1) - both);
  });
}

}  // namespace slipstream
