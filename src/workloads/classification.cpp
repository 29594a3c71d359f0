#include "slipstream/datasets.h"
#include "workloads/classifier.h"
#include "workloads/input.h"
#include "workloads/workloads.h"

namespace slipstream {
namespace {

std::shared_ptr<const Dataset> data_of(const Options& options) {
  if (options.data != "synthetic") return open_dataset(options.data, options.classes);
  return synthetic_classification(synthetic_of(options));
}

/// As the data set knows, or else as the options say; labels beyond them are then refused.
std::int64_t classes_of(const Dataset& dataset, const Options& options) {
  for (const FieldSpec& field : dataset.fields())
    if (field.name == "label" && field.kind == FieldKind::label)
      return field.classes > 0 ? field.classes : options.classes;
  throw Refused("classification needs one class an image, a field 'label'; '" + options.data +
                "' has none");
}

}  // namespace

Pipeline classification(const Options& options) {
  refuse_mode(options, "classification");
  const std::int64_t levels = levels_of(options.image_size, "classification");
  const auto data = data_of(options);
  Classifier model(levels, classes_of(*data, options));
  return declare_input(data, options)
      .train("model", model, make_optimizer(options), cross_entropy("image", "label"));
}

}  // namespace slipstream
