#include "transforms/batch_chain.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <tuple>

#include "slipstream/core/error.h"
#include "transforms/beta.h"

namespace slipstream {
namespace {

constexpr std::int64_t kMostElements = std::int64_t{1} << 30;

std::string quoted(const std::string& name) { return "'" + name + "'"; }

/// Returns the index of the only field of `kind`. Throws Refused if there is none or more than one.
std::size_t only(std::string_view op, FieldKind kind, const std::vector<FieldSpec>& fields,
                 const std::string& need) {
  const auto is = [&](const FieldSpec& field) { return field.kind == kind; };
  const auto count = std::count_if(fields.begin(), fields.end(), is);
  if (count != 1)
    throw Refused(std::string(op) + " needs " + need + ", but the data set has " +
                  (count == 0 ? "none" : std::to_string(count)) + "; leave " + std::string(op) +
                  " out, or train on other data");
  return static_cast<std::size_t>(std::find_if(fields.begin(), fields.end(), is) - fields.begin());
}

void check_label(std::string_view op, const FieldSpec& label) {
  const std::string name(op);
  if (label.shape.rank != 0 || label.dtype == DType::float32)
    throw Refused(name + " needs one class index per sample, but label " + quoted(label.name) +
                  " is " + std::string(to_string(label.dtype)) + " of shape " +
                  to_string(label.shape) + "; leave " + name + " out");
  if (label.classes <= 0)
    throw Refused(name + ": label " + quoted(label.name) +
                  " has an unknown number of classes; declare the classes with the data set");
}

void check_image(const BatchOps& ops, const FieldSpec& image) {
  const std::string name(ops.name());
  const Shape& shape = image.shape;
  if (shape.rank != 3 || (image.dtype != DType::uint8 && image.dtype != DType::float32))
    throw Refused(name + " needs uint8 or float32 images, height x width x channels, but " +
                  quoted(image.name) + " is " + std::string(to_string(image.dtype)) + " of shape " +
                  to_string(shape));
  if (ops.mixup && image.dtype == DType::uint8)
    throw Refused("mixup needs float32 images, but " + quoted(image.name) +
                  " is uint8; put to_dtype or normalize before it");
  if (static_cast<std::int64_t>(shape.elements()) > kMostElements)
    throw Refused(name + " needs images of at most 2^30 values, but " + quoted(image.name) +
                  " is " + to_string(shape) + "; resize it before");
}

void check_places(std::string_view op, const std::vector<FieldSpec>& fields) {
  for (const FieldSpec& field : fields)
    if (field.kind == FieldKind::mask || field.kind == FieldKind::boxes)
      throw Refused(std::string(op) + " mixes one label per image, but " + quoted(field.name) +
                    (field.kind == FieldKind::mask ? " is a mask with a class for every pixel"
                                                   : " holds the boxes of each image") +
                    "; leave " + std::string(op) + " out");
}

/// Returns begin and end of a box's side around `center`, clipped to the image's `side`.
std::pair<std::int32_t, std::int32_t> around(std::int64_t center, double share, std::int64_t side) {
  const auto half = static_cast<std::int64_t>(share / 2 * static_cast<double>(side));
  return {static_cast<std::int32_t>(std::max<std::int64_t>(center - half, 0)),
          static_cast<std::int32_t>(std::min(center + half, side))};
}

}  // namespace

BatchChain::BatchChain(const BatchOps& ops, std::uint32_t operation,
                       const std::vector<FieldSpec>& fields)
    : ops_(ops), operation_(operation) {
  const std::string_view name = ops.name();
  if (ops.mixes()) {
    check_places(name, fields);
    image_ = only(name, FieldKind::image, fields, "one image per sample");
    const FieldSpec& image = fields[*image_];
    check_image(ops, image);
    form_.images = ops.mixup ? MixForm::Images::blended : MixForm::Images::boxed;
    form_.dtype = image.dtype;
    form_.height = image.shape[0];
    form_.width = image.shape[1];
    form_.channels = image.shape[2];
  }
  label_ = only(name, FieldKind::label, fields, "one label per sample");
  const FieldSpec& label = fields[label_];
  check_label(name, label);
  form_.label = label.dtype;
  form_.classes = label.classes;
  const double smoothing = ops.one_hot ? ops.one_hot->label_smoothing : 0;
  const double off = smoothing / static_cast<double>(label.classes);
  form_.on = static_cast<float>(1 - smoothing + off);
  form_.off = static_cast<float>(off);
}

DrawnMix BatchChain::draw(std::uint64_t seed, std::uint64_t batch, std::uint32_t place) const {
  DrawnMix drawn;
  if (!ops_.mixes()) return drawn;
  // The key holds step and index in the batch instead of epoch and sample (docs/random.md).
  RandomStream stream({.seed = seed, .epoch = place, .sample = batch, .operation = operation_});
  double lambda = symmetric_beta(ops_.mixup ? ops_.mixup->alpha : ops_.cutmix->alpha, stream);
  if (ops_.cutmix) {
    const double share = std::sqrt(1 - lambda);
    const std::int64_t x = stream.below(static_cast<std::uint32_t>(form_.width));
    const std::int64_t y = stream.below(static_cast<std::uint32_t>(form_.height));
    std::tie(drawn.left, drawn.right) = around(x, share, form_.width);
    std::tie(drawn.top, drawn.bottom) = around(y, share, form_.height);
    const std::int64_t area = std::int64_t{drawn.right - drawn.left} * (drawn.bottom - drawn.top);
    // Labels are mixed by the area that is left after clipping.
    lambda = 1 - static_cast<double>(area) / static_cast<double>(form_.height * form_.width);
  }
  drawn.own = static_cast<float>(lambda);
  drawn.other = 1 - drawn.own;
  return drawn;
}

}  // namespace slipstream
