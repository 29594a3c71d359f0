#include "loader/slab_layout.h"

#include <algorithm>

#include "loader/jpeg_route.h"
#include "loader/wire_layout.h"
#include "slipstream/core/error.h"
#include "slipstream/transforms/resize.h"
#include "transforms/batch_chain.h"
#include "transforms/box_form.h"
#include "transforms/device_chain.h"
#include "transforms/geometry.h"
#include "transforms/units.h"

namespace slipstream {
namespace {

using Problems = std::vector<std::string>;

constexpr std::int64_t kU8Classes = 256;

void check_names(const std::vector<NamedOp>& transforms, const BatchOps& batch_ops,
                 Problems& problems) {
  if (transforms.size() + (batch_ops.mixes() ? 1 : 0) > kMaxTransforms) {
    problems.push_back(std::to_string(transforms.size()) + " transforms" +
                       (batch_ops.mixes() ? " before " + std::string(batch_ops.name()) : "") +
                       ": there can be at most " + std::to_string(kMaxTransforms) + " in all");
  }
  const Problems steps = step_names(transforms);
  for (std::size_t i = 2; i + 1 < steps.size(); ++i) {
    if (steps[i].empty()) {
      problems.push_back("transform " + std::to_string(i - 2) + " has no name");
    } else if (std::count(steps.begin(), steps.begin() + static_cast<std::ptrdiff_t>(i), steps[i]) >
                   0 ||
               steps[i] == steps.back()) {
      problems.push_back("two steps are called '" + steps[i] +
                         "': give the transform another name");
    }
  }
}

void check_size(const Dataset& dataset, const DataLoaderOptions& options, Problems& problems) {
  const std::size_t batch_size = options.batch_size;
  if (batch_size == 0) problems.push_back("batch size 0: give at least 1");
  if (dataset.size() == 0) {
    problems.push_back("the data set is empty");
  } else if (batch_size > dataset.size() && options.batches == nullptr) {
    problems.push_back("batch size " + std::to_string(batch_size) +
                       " is larger than the data set: give at most " +
                       std::to_string(dataset.size()));
  }
}

DType dtype_on_device(const FieldSpec& spec, Problems& problems) {
  if (spec.classes == 0) return spec.dtype;
  if (spec.classes < 0 || spec.dtype == DType::float32) {
    problems.push_back("field '" + spec.name + "' declares " + std::to_string(spec.classes) +
                       " classes of " + std::string(to_string(spec.dtype)) +
                       ": classes are counted from 0 and need an integer dtype");
    return spec.dtype;
  }
  const bool is_class = spec.kind == FieldKind::label || spec.kind == FieldKind::mask;
  return is_class && spec.classes <= kU8Classes ? DType::uint8 : spec.dtype;
}

void check_over_batch(const std::vector<NamedOp>& transforms, Problems& problems) {
  for (const auto& [name, op] : transforms)
    if (op.is_over_batch())
      problems.push_back("transform '" + name + "': " + std::string(op.name()) +
                         " works on whole batches on the device of a training pipeline; leave it "
                         "out if only samples are processed");
}

/// Sets the size of the slots of the field that travels as JPEG files, if there is one.
void choose_slots(const Dataset& dataset, const std::vector<NamedOp>& transforms,
                  std::size_t most_bytes, SlabLayout& layout, Problems& problems) {
  for (SlabField& field : layout.fields) {
    if (field.wire != Wire::jpeg) continue;
    field.sample_bytes = jpeg_slot_bytes(field.spec, most_bytes);
    for (const std::string& problem : problems_of_jpeg(dataset, transforms)) {
      problems.push_back("field '" + field.spec.name +
                         "' cannot have the wire format jpeg: " + problem);
    }
  }
}

/// If images differ in size and the first transform on the device resizes them, gives them and
/// their masks the form of canvases, because all samples of a slab must have the same size. Returns
/// true if it did.
bool put_on_canvases(const std::vector<NamedOp>& transforms, std::size_t first,
                     std::vector<FieldSpec>& specs, Problems& problems) {
  if (first >= transforms.size()) return false;
  const auto& [name, op] = transforms[first];
  try {
    op.validate();
  } catch (const Refused& refused) {
    problems.push_back("transform '" + name + "': " + refused.what());
    return false;
  }
  const auto canvas = on_canvas(op);
  const auto is_moved = [&moves = op](const FieldSpec& spec) {
    return spec.kind != FieldKind::boxes && moves.touches(spec.kind) && spec.shape.rank >= 2;
  };
  const bool differ = std::any_of(specs.begin(), specs.end(), [&](const FieldSpec& spec) {
    return is_moved(spec) && (spec.shape[0] < 0 || spec.shape[1] < 0);
  });
  const auto* resize = op.get_if<Resize>();
  if (differ && resize != nullptr && resize->size.keeps_ratio())
    problems.push_back("transform '" + name +
                       "': images keep different sizes, which the device does not support: give "
                       "its size as [height, width], or leave it to the loader's threads");
  if (!canvas || !differ) return false;
  for (FieldSpec& spec : specs) {
    if (!is_moved(spec)) continue;
    spec.shape.dims[0] = canvas->height;
    spec.shape.dims[1] = canvas->width;
  }
  return true;
}

/// Adds the chain of transforms that the device applies, starting with `first`.
void add_chain(const std::vector<NamedOp>& transforms, std::size_t first, bool has_canvas,
               SlabLayout& layout, Problems& problems) {
  if (first == transforms.size()) {
    problems.emplace_back("there is no transform to run on the device");
    return;
  }
  std::vector<FieldSpec> fields;
  for (const SlabField& field : layout.fields) {
    fields.push_back(field.spec);
    fields.back().dtype = field.dtype;
  }
  try {
    layout.device_chain = std::make_shared<const DeviceChain>(
        std::vector(transforms.begin() + static_cast<std::ptrdiff_t>(first), transforms.end()),
        static_cast<std::uint32_t>(key_number(transforms, first)), std::move(fields), has_canvas);
  } catch (const Refused& refused) {
    problems.emplace_back(refused.what());
    return;
  }
  const auto bytes = static_cast<std::int64_t>(layout.device_chain->drawn_bytes());
  layout.fields.push_back({.spec = {kDrawnField, FieldKind::other, DType::uint8, {bytes}, 0}});
}

void add_batch_chain(const BatchOps& ops, std::size_t operation, SlabLayout& layout,
                     Problems& problems) {
  const std::size_t samples = layout.fields.size() - (layout.device_chain ? 1 : 0);
  std::vector<FieldSpec> fields;
  for (std::size_t i = 0; i < samples; ++i) {
    fields.push_back(layout.device_chain ? layout.device_chain->outputs()[i]
                                         : layout.fields[i].spec);
    if (!layout.device_chain) fields.back().dtype = layout.fields[i].dtype;
  }
  try {
    const auto chain =
        std::make_shared<const BatchChain>(ops, static_cast<std::uint32_t>(operation), fields);
    for (std::size_t i = 0; i < samples; ++i) {
      if (layout.fields[i].wire != Wire::host || (i != chain->image() && i != chain->label()))
        continue;
      throw Refused("field '" + fields[i].name + "' stays on the host, but " +
                    std::string(ops.name()) + " runs on the device; leave out this wire format");
    }
    layout.batch_chain = chain;
  } catch (const Refused& refused) {
    problems.emplace_back(refused.what());
    return;
  }
  if (ops.mixes())
    layout.fields.push_back(
        {.spec = {kMixField, FieldKind::other, DType::uint8, {sizeof(DrawnMix)}, 0}});
}

}  // namespace

std::vector<std::string> step_names(const std::vector<NamedOp>& transforms) {
  std::vector<std::string> names = {"read", "decode"};
  for (const NamedOp& transform : transforms) names.push_back(transform.name);
  names.push_back("collate");
  return names;
}

std::vector<NamedOp> on_host(std::vector<NamedOp> transforms, std::size_t on_device) {
  const std::size_t count = transforms.size() - std::min(on_device, transforms.size());
  transforms.erase(transforms.begin() + static_cast<std::ptrdiff_t>(count), transforms.end());
  return transforms;
}

SlabLayout plan_slab(const Dataset& dataset, const std::vector<NamedOp>& transforms,
                     const DataLoaderOptions& options, std::vector<std::string>& problems) {
  check_names(transforms, options.batch_ops, problems);
  check_size(dataset, options, problems);
  const std::vector<NamedOp> host = on_host(transforms, options.on_device);
  SlabLayout layout;
  layout.batch_size = options.batch_size;
  if (dataset.size() == 0) return layout;
  std::vector<FieldSpec> specs = dataset.fields();
  // Transforms do not change the kinds of fields, so all can be checked with these.
  for (const auto& [name, op] : transforms)
    if (const std::string problem = problem_of_fields(op, specs); !problem.empty())
      problems.emplace_back("transform '" + name + "': ") += problem;
  check_over_batch(host, problems);
  specs = fields_after(host, std::move(specs), problems);
  const bool has_canvas = options.on_device > 0 && problems.empty() &&
                          put_on_canvases(transforms, host.size(), specs, problems);
  for (FieldSpec& spec : specs) {
    if (!spec.shape.is_fixed()) {
      problems.push_back(
          "field '" + spec.name + "' has shape " + to_string(spec.shape) +
          ", which differs from sample to sample: add resize to [height, width] or a "
          "crop to the transforms");
      continue;
    }
    if (std::string problem = problem_of_boxes(spec); !problem.empty() && host.empty())
      problems.push_back(std::move(problem));
    const DType dtype = dtype_on_device(spec, problems);
    layout.fields.push_back({.spec = std::move(spec), .dtype = dtype});
  }
  choose_wires(options.wire, layout, problems);
  choose_slots(dataset, host, options.jpeg_bytes, layout, problems);
  if (problems.empty() && options.on_device > 0)
    add_chain(transforms, host.size(), has_canvas, layout, problems);
  if (problems.empty() && !options.batch_ops.empty())
    add_batch_chain(options.batch_ops, key_number(transforms, transforms.size()), layout, problems);
  if (problems.empty()) place_fields(layout);
  if (problems.empty() && layout.bytes == 0)  // all samples are empty, but a slab needs an address
    layout.bytes = layout.copied_bytes = layout.device_bytes = kSlabAlignment;
  if (layout.device_bytes == 0 && problems.empty())
    problems.emplace_back(
        "every field stays on the host: at least one must be copied to the device");
  return layout;
}

const SlabField& SlabLayout::field(const std::string& name) const {
  std::vector<std::string> known;
  for (const SlabField& candidate : fields) {
    if (candidate.spec.name == name) return candidate;
    known.push_back(candidate.spec.name);
  }
  throw Error(unknown_name("field", name, known));
}

SlabLayout DataLoader::plan_layout(const Dataset& dataset, const std::vector<NamedOp>& transforms,
                                   const DataLoaderOptions& options) {
  std::vector<std::string> problems;
  if (const auto problem = problem_of_units(transforms)) problems.push_back(*problem);
  SlabLayout layout = plan_slab(dataset, transforms, options, problems);
  refuse(problems);
  return layout;
}

}  // namespace slipstream
