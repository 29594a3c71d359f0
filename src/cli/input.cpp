#include "cli/input.h"

#include "core/number_text.h"
#include "datasets/open_dataset.h"
#include "slipstream/datasets/datasets.h"
#include "slipstream/transforms/chain.h"

namespace slipstream {
namespace {

/// Refuses data without a field "image". The fields of arrays have the names of their files.
void require_image(const Dataset& dataset, const Options& options) {
  std::string names;
  for (const FieldSpec& field : dataset.fields()) {
    if (field.name == "image" && field.kind == FieldKind::image) return;
    names += (names.empty() ? "'" : ", '") + field.name + "'";
  }
  throw Refused(name_of_data(options) +
                " has no images called 'image', which models read; it has " + names +
                ": rename that file");
}

/// Refuses images that are not RGB. Files are decoded to RGB, but arrays may have other channels.
void require_rgb(const Dataset& dataset, const Options& options) {
  for (const FieldSpec& field : dataset.fields()) {
    if (field.kind != FieldKind::image || field.shape.rank != 3) continue;
    const std::int64_t channels = field.shape[2];
    if (channels == 3 || channels < 0) continue;
    throw Refused(name_of_data(options) + ": the images of '" + field.name + "' have " +
                  format_count(static_cast<std::uint64_t>(channels), "channel") +
                  ", but models need 3 (RGB); save them again with " +
                  (channels < 3 ? "numpy.repeat(images[..., :1], 3, axis=3)" : "images[..., :3]"));
  }
}

}  // namespace

SyntheticOptions make_synthetic_options(const Options& options) {
  SyntheticOptions synthetic;
  synthetic.size = options.integer("image-size");
  synthetic.classes = options.integer("classes");
  synthetic.seed = options.seed;
  return synthetic;
}

Pipeline declare_input(std::shared_ptr<const Dataset> dataset, const Options& options,
                       const std::vector<NamedOp>& transforms) {
  require_image(*dataset, options);
  require_rgb(*dataset, options);
  Pipeline declared = pipeline(std::move(dataset), options);
  for (const NamedOp& each : transforms)
    declared = std::move(declared).transform(each.name, each.op);
  return declared;
}

std::vector<NamedOp> chain_in(const std::string& transforms) {
  return transforms.starts_with('{') ? parse_chain(transforms) : load_chain(transforms);
}

Pipeline declare_input(std::shared_ptr<const Dataset> dataset, const Options& options) {
  const std::int64_t size = options.integer("image-size");
  const std::string file = options.has("transforms") ? options.text("transforms") : "";
  const std::vector<NamedOp> chain = file.empty() ? load_chain_or_resize("", size) : chain_in(file);
  Pipeline declared = declare_input(std::move(dataset), options, chain);
  const Shape shape = image_after(chain).shape;
  if (shape == Shape{size, size, 3}) return declared;
  const std::string end = "the transforms in '" + file + "' end with images of " + to_string(shape);
  if (options.is_given("image-size"))
    throw Refused(end + ", but --image-size asks for " + to_string(Shape{size, size, 3}));
  throw Refused(end + ": models need square images of one size; end the transforms that change " +
                "the size with a resize to such a size");
}

void take_size_of_transforms(Options& options) {
  if (!options.is_given("transforms") || options.is_given("image-size")) return;
  const Shape shape = image_after(chain_in(options.text("transforms"))).shape;
  if (shape.rank == 3 && shape[0] > 0) options.set("image-size", shape[0]);
}

bool is_synthetic(const Options& options) {
  return options.has("data") && options.text("data") == "synthetic";
}

std::shared_ptr<const Dataset> open_to_predict(const Options& options, bool needs_masks) {
  if (options.needs_labels) return nullptr;
  KnownClasses known = {options.class_names, options.class_count};
  if (options.is_given("classes")) known = {{}, options.integer("classes")};
  if (const std::string names = options.text("classes-from"); !names.empty())
    known = {class_names_from(names), 0};
  return open_to_predict(options.text("data"), known, needs_masks);
}

std::shared_ptr<const Dataset> open_data(const Options& options) {
  if (auto images = open_to_predict(options, false)) return images;
  const std::string data = options.text("data"), names = options.text("classes-from");
  if (!names.empty()) return open_dataset(data, class_names_from(names));
  if (options.needs_labels && !options.class_names.empty())
    return open_dataset(data, options.class_names);
  return open_dataset(data, options.integer("classes"));
}

bool has_labels(const Dataset& dataset, FieldKind kind) {
  for (const FieldSpec& field : dataset.fields())
    if (field.name == "label" && field.kind == kind) return true;
  return false;
}

std::int64_t classes_without_labels(const Dataset& dataset, Options& options) {
  const auto named = static_cast<std::int64_t>(dataset.class_names().size());
  const std::int64_t known = options.is_given("classes") ? 0 : options.class_count;
  if (named > 0 || known > 0) options.set("classes", named > 0 ? named : known);
  return options.integer("classes");
}

std::int64_t find_classes(const Dataset& dataset, Options& options, const std::string& workload) {
  if (!options.needs_labels && !has_labels(dataset, FieldKind::label))
    return classes_without_labels(dataset, options);
  for (const FieldSpec& field : dataset.fields()) {
    if (field.name != "label" || field.kind != FieldKind::label) continue;
    const std::int64_t asked = options.integer("classes");
    if (field.classes == 0) return asked;
    if (options.is_given("classes") && field.classes != asked)
      throw Refused("--classes " + std::to_string(asked) + ": " + name_of_data(options) + " has " +
                    format_count(static_cast<std::uint64_t>(field.classes), "class") +
                    "; leave --classes out");
    options.set("classes", field.classes);
    return field.classes;
  }
  throw Refused(workload + " needs one class for each image, a field 'label'; " +
                name_of_data(options) + " has none");
}

}  // namespace slipstream
