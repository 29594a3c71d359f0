#include "workloads/input.h"

#include <sstream>

#include "slipstream/chain.h"
#include "slipstream/datasets.h"
#include "slipstream/disk_cache.h"
#include "slipstream/files.h"

namespace slipstream {
namespace {

std::string read_weights(const std::string& path) try {
  return read_text(path);
} catch (const Error& error) {
  throw Refused("--sampling: " + std::string(error.what()));
}

std::vector<double> weights_in(const std::string& path) {
  std::istringstream text(read_weights(path));
  std::vector<double> weights;
  std::string line;
  while (std::getline(text, line)) {
    std::istringstream words(line);
    double weight = 0;
    std::string more;
    if (!(words >> weight) || words >> more)
      throw Refused("'" + path + "', line " + std::to_string(weights.size() + 1) + ": '" + line +
                    "' is not one weight");
    weights.push_back(weight);
  }
  return weights;
}

Sampling sampling_of(const std::shared_ptr<const Dataset>& dataset, const Options& options) {
  if (options.sampling == "each") return {};
  if (options.sampling != "balanced") return Sampling::weighted(weights_in(options.sampling));
  const auto labelled = std::dynamic_pointer_cast<const LabelledDataset>(dataset);
  if (labelled == nullptr)
    throw Refused(
        "balanced sampling needs data that tell their classes without being read, folders "
        "of classes or a list; '" +
        options.data + "' does not: give a file of weights, one a line");
  return Sampling::balanced(*labelled);
}

std::shared_ptr<const Dataset> with_disk_cache(std::shared_ptr<const Dataset> dataset,
                                               const Options& options) {
  if (options.disk_cache.empty()) return dataset;
  return disk_cached(std::move(dataset),
                     {.dir = options.disk_cache, .max_bytes = options.disk_cache_bytes});
}

/// Arrays have the names of their files.
void require_image(const Dataset& dataset, const Options& options) {
  std::string names;
  for (const FieldSpec& field : dataset.fields()) {
    if (field.name == "image" && field.kind == FieldKind::image) return;
    names += (names.empty() ? "'" : ", '") + field.name + "'";
  }
  throw Refused("'" + options.data + "' has no images called 'image', which models read; it has " +
                names + ": rename that file");
}

/// Files are decoded to RGB, but arrays may hold other channels.
void require_rgb(const Dataset& dataset, const Options& options) {
  for (const FieldSpec& field : dataset.fields()) {
    if (field.kind != FieldKind::image || field.shape.rank != 3) continue;
    const std::int64_t channels = field.shape[2];
    if (channels == 3 || channels < 0) continue;
    throw Refused("'" + options.data + "': the images of '" + field.name + "' have " +
                  std::to_string(channels) + (channels == 1 ? " channel" : " channels") +
                  ", but models take 3 (RGB); save them again with " +
                  (channels < 3 ? "numpy.repeat(images[..., :1], 3, axis=3)" : "images[..., :3]"));
  }
}

}  // namespace

Pipeline declare_input(std::shared_ptr<const Dataset> dataset, const Options& options,
                       const std::vector<NamedOp>& transforms, const StepCosts& costs) {
  require_image(*dataset, options);
  require_rgb(*dataset, options);
  Sampling sampling = sampling_of(dataset, options);
  Pipeline declared = pipeline(with_disk_cache(std::move(dataset), options),
                               {.batch_size = options.batch_size,
                                .seed = options.seed,
                                .on_bad_sample = options.on_bad_sample,
                                .sampling = std::move(sampling),
                                .costs = costs});
  for (const NamedOp& each : transforms)
    declared = std::move(declared).transform(each.name, each.op);
  return declared;
}

Pipeline declare_input(std::shared_ptr<const Dataset> dataset, const Options& options,
                       const StepCosts& costs) {
  const std::int64_t size = options.image_size;
  const std::vector<NamedOp> chain = load_chain_or_resize(options.chain, size);
  Pipeline declared = declare_input(std::move(dataset), options, chain, costs);
  const Shape shape = image_after(chain).shape;
  if (!(shape == Shape{size, size, 3}))
    throw Refused("chain '" + options.chain + "' ends with images of " + to_string(shape) +
                  ", but --image-size asks for " + to_string(Shape{size, size, 3}));
  return declared;
}

std::int64_t classes_of(const Dataset& dataset, const Options& options,
                        const std::string& workload) {
  for (const FieldSpec& field : dataset.fields()) {
    if (field.name != "label" || field.kind != FieldKind::label) continue;
    if (field.classes == 0) return options.classes;
    if (options.has_given_classes && field.classes != options.classes)
      throw Refused("--classes " + std::to_string(options.classes) + ": '" + options.data +
                    "' says that it has " + std::to_string(field.classes) +
                    " classes; leave --classes out");
    return field.classes;
  }
  throw Refused(workload + " needs one class an image, a field 'label'; '" + options.data +
                "' has none");
}

}  // namespace slipstream
