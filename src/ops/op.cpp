#include "slipstream/op.h"

#include <algorithm>

#include "ops/box_form.h"
#include "slipstream/error.h"

namespace slipstream {
namespace {

bool has_size(const FieldSpec& field) {
  return field.kind == FieldKind::image || field.kind == FieldKind::mask;
}

bool keeps_size(const AnyOp& op, const FieldSpec& field) {
  const Shape after = op.output(field).shape;
  return after.rank >= 2 && after[0] == field.shape[0] && after[1] == field.shape[1];
}

void check_boxes(const AnyOp& op, const FieldSpec& boxes, const std::vector<FieldSpec>& fields) {
  if (const std::string problem = problem_of_boxes(boxes); !problem.empty()) throw Refused(problem);
  const std::string name = "boxes '" + boxes.name + "' ";
  const auto is_moved = [&](const FieldSpec& field) {
    return has_size(field) && op.touches(field.kind);
  };
  if (op.touches(FieldKind::boxes)) {
    if (std::any_of(fields.begin(), fields.end(), is_moved)) return;
    throw Refused(name + "are of no image: the data set has none that " + std::string(op.name()) +
                  " could move them with");
  }
  const bool is_resized = std::any_of(fields.begin(), fields.end(), [&](const FieldSpec& field) {
    return is_moved(field) && !keeps_size(op, field);
  });
  if (!is_resized) return;
  throw Refused(name +
                "cannot follow: it gives images another size and does not say where it moves "
                "pixels; give the operation a member map() (op.h)");
}

}  // namespace

std::vector<FieldSpec> fields_after(const AnyOp& op, std::vector<FieldSpec> fields) {
  for (const FieldSpec& field : fields)
    if (field.kind == FieldKind::boxes) check_boxes(op, field, fields);
  for (FieldSpec& field : fields)
    if (field.kind != FieldKind::boxes && op.touches(field.kind)) field = op.output(field);
  return fields;
}

}  // namespace slipstream
