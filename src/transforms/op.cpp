#include "slipstream/transforms/op.h"

#include <algorithm>

#include "slipstream/core/error.h"
#include "slipstream/transforms/auto_augment.h"
#include "slipstream/transforms/containers.h"
#include "slipstream/transforms/masking.h"
#include "slipstream/transforms/transforms.h"
#include "slipstream/transforms/warp.h"
#include "transforms/box_form.h"
#include "transforms/geometry.h"

namespace slipstream {
namespace {

bool has_size(const FieldSpec& field) {
  return field.kind == FieldKind::image || field.kind == FieldKind::mask;
}

bool is_moved(const AnyOp& op, const FieldSpec& field) {
  return has_size(field) && op.touches(field.kind);
}

bool keeps_size(const AnyOp& op, const FieldSpec& field) {
  const Shape after = op.output(field).shape;
  return after.rank >= 2 && after[0] == field.shape[0] && after[1] == field.shape[1];
}

void check_boxes(const AnyOp& op, const FieldSpec& boxes, const std::vector<FieldSpec>& fields) {
  if (const std::string problem = problem_of_boxes(boxes); !problem.empty()) throw Refused(problem);
  const std::string name = "boxes '" + boxes.name + "' ";
  if (op.touches(FieldKind::boxes)) {
    const auto moves = [&](const FieldSpec& field) { return is_moved(op, field); };
    if (std::any_of(fields.begin(), fields.end(), moves)) return;
    throw Refused(name + "do not belong to an image: the data set has no image that " +
                  std::string(op.name()) + " could move together with them");
  }
  const bool is_resized = std::any_of(fields.begin(), fields.end(), [&](const FieldSpec& field) {
    return is_moved(op, field) && !keeps_size(op, field);
  });
  if (!is_resized) return;
  throw Refused(name +
                "cannot be moved with the image: the operation changes the size of images and does "
                "not say where it moves pixels; give it a member map() (op.h)");
}

template <typename... Ops>
bool is_one_of(const AnyOp& op) {
  return ((op.get_if<Ops>() != nullptr) || ...);
}

std::string describe_size(const FieldSpec& field) {
  return "'" + field.name + "' is " + to_string(Shape{field.shape[0], field.shape[1]});
}

/// Throws Refused if an operation whose positions are generated for one size would apply to fields
/// of different sizes.
void check_sizes(const AnyOp& op, const std::vector<FieldSpec>& fields) {
  if (!is_one_of<CenterCrop, RandomCrop, RandomResizedCrop, RandomRotation, RandomAffine,
                 RandomErasing, RandomApply, RandomChoice, RandAugment, TrivialAugmentWide,
                 AutoAugment>(op)) {
    return;
  }
  const FieldSpec* first = drawn_for(op, fields);
  if (first == nullptr || !first->shape.is_fixed()) return;
  for (const FieldSpec& field : fields) {
    if (!is_moved(op, field) || !field.shape.is_fixed()) continue;
    if (field.shape[0] == first->shape[0] && field.shape[1] == first->shape[1]) continue;
    throw Refused(std::string(op.name()) + ": field " + describe_size(field) + " pixels, but " +
                  describe_size(*first) + "; make them the same size");
  }
}

/// Throws Refused for fields that would no longer match an image whose pixels are moved alone.
void check_images_moved_alone(const AnyOp& op, const std::vector<FieldSpec>& fields) {
  if (!moves_only_images(op)) return;
  for (const FieldSpec& field : fields) {
    if (field.kind != FieldKind::mask && field.kind != FieldKind::boxes) continue;
    throw Refused(std::string(op.name()) + " moves the pixels of images, and " +
                  std::string(to_string(field.kind)) + " '" + field.name +
                  "' would no longer match them: leave it out; random_affine, random_rotation and "
                  "the operations on colors can be used instead");
  }
}

}  // namespace

bool moves_only_images(const AnyOp& op) {
  const auto any_does = [](const std::vector<NamedOp>& transforms) {
    return std::any_of(transforms.begin(), transforms.end(),
                       [](const NamedOp& each) { return moves_only_images(each.op); });
  };
  if (const auto* apply = op.get_if<RandomApply>()) return any_does(apply->transforms);
  if (const auto* choice = op.get_if<RandomChoice>()) return any_does(choice->transforms);
  return is_one_of<RandAugment, TrivialAugmentWide, AutoAugment>(op);
}

const FieldSpec* drawn_for(const AnyOp& op, const std::vector<FieldSpec>& fields) {
  const auto find = [&](auto accepts) {
    return std::find_if(fields.begin(), fields.end(), [&](const FieldSpec& field) {
      return op.touches(field.kind) && accepts(field.kind);
    });
  };
  auto found = find([](FieldKind kind) { return kind == FieldKind::image; });
  if (found == fields.end()) found = find([](FieldKind kind) { return kind != FieldKind::boxes; });
  return found == fields.end() ? nullptr : &*found;
}

std::string problem_of_fields(const AnyOp& op, const std::vector<FieldSpec>& fields) {
  const auto is_touched = [&](const FieldSpec& field) { return op.touches(field.kind); };
  if (op.is_over_batch() || std::any_of(fields.begin(), fields.end(), is_touched)) return "";
  std::string listed;
  for (const FieldSpec& field : fields)
    listed += (listed.empty() ? "'" : ", '") + field.name + "' (" +
              std::string(to_string(field.kind)) + ")";
  return "the data set has no field that " + std::string(op.name()) +
         " applies to: its fields are " + listed;
}

std::vector<FieldSpec> fields_after(const AnyOp& op, std::vector<FieldSpec> fields) {
  check_images_moved_alone(op, fields);
  check_sizes(op, fields);
  for (const FieldSpec& field : fields)
    if (field.kind == FieldKind::boxes) check_boxes(op, field, fields);
  for (FieldSpec& field : fields)
    // Boxes keep dtype and shape.
    if (field.kind != FieldKind::boxes && op.touches(field.kind)) field = op.output(field);
  return fields;
}

std::vector<FieldSpec> fields_after(const std::vector<NamedOp>& chain,
                                    std::vector<FieldSpec> fields,
                                    std::vector<std::string>& problems) {
  for (const auto& [name, op] : chain) {
    try {
      op.validate();
      fields = fields_after(op, fields);
    } catch (const Refused& refused) {
      problems.push_back("transform '" + name + "': " + refused.what());
    }
  }
  return fields;
}

std::size_t key_number(const std::vector<NamedOp>& chain, std::size_t index) {
  const auto end = chain.begin() + static_cast<std::ptrdiff_t>(index);
  // Operations that find their shape have no index in random keys (op.h), so they are not counted.
  return index -
         static_cast<std::size_t>(std::count_if(
             chain.begin(), end, [](const NamedOp& each) { return each.op.finds_shape(); }));
}

}  // namespace slipstream
