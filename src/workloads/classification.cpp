#include "slipstream/datasets/datasets.h"
#include "workloads/classifier.h"
#include "workloads/input.h"
#include "workloads/workloads.h"

namespace slipstream {
namespace {

std::shared_ptr<const Dataset> data_of(const Options& options) {
  if (!is_synthetic(options)) return open_data(options);
  return synthetic_classification(synthetic_of(options));
}

}  // namespace

Pipeline classification(Options& options) {
  const std::int64_t levels = levels_of(options.integer("image-size"), "classification");
  const auto data = data_of(options);
  Classifier model(levels, classes_of(*data, options, "classification"));
  return declare_input(data, options)
      .train("model", model, make_optimizer(options), cross_entropy("image", "label"));
}

}  // namespace slipstream
