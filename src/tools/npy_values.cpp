#include "tools/npy_values.h"

#include <algorithm>
#include <set>

#include "datasets/field_values.h"
#include "datasets/npy_manifest.h"
#include "slipstream/core/error.h"
#include "transforms/box_form.h"

namespace slipstream {
namespace {

constexpr std::int64_t kU8Classes = 256;

bool has_classes(const FieldSpec& field) {
  return field.kind == FieldKind::label || field.kind == FieldKind::mask;
}

std::string find_problem(const FieldSpec& field) {
  const std::string what = "field '" + field.name + "' ";
  if (!is_npy_name(field.name))
    return what + "cannot be a file name: use letters, digits, '_' and '-'";
  if (!field.shape.is_fixed())
    return what + "has shape " + to_string(field.shape) +
           ", which differs from sample to sample: give --resize SIZE, or --transforms whose "
           "transforms before the first random one produce a single size";
  if (field.kind == FieldKind::image && (field.dtype != DType::uint8 || field.shape.rank != 3))
    return what + "is " + std::string(to_string(field.dtype)) + " of shape " +
           to_string(field.shape) + ": images are stored as uint8, height x width x channels";
  if (std::string problem = problem_of_boxes(field); !problem.empty()) return problem;
  const std::size_t rank = field.kind == FieldKind::mask ? 2 : 0;
  if (has_classes(field) && (field.dtype == DType::float32 || field.shape.rank != rank))
    return what + "is " + std::string(to_string(field.dtype)) + " of shape " +
           to_string(field.shape) +
           ": class labels must be one integer per sample, masks height x width integers";
  if (field.shape.rank >= Shape::kMaxRank) return what + "has more than three dimensions";
  return "";
}

template <typename T>
void check_classes(const FieldSpec& field, const T* values, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    const auto value = static_cast<std::int64_t>(values[i]);
    if (value >= 0 && value < field.classes) continue;
    throw Error(class_problem(field, value));
  }
}

template <typename T>
ConstArray stored(const FieldSpec& field, const ConstArray& value, HostArray& spare) {
  const T* const values = value.as<T>();
  const std::size_t count = value.shape.elements();
  if (field.classes > 0) check_classes(field, values, count);
  if (value.dtype == field.dtype) return value;
  const MutableArray out = spare.reset(DType::uint8, value.shape);
  std::transform(values, values + count, out.as<std::uint8_t>(),
                 [](T x) { return static_cast<std::uint8_t>(x); });
  return out;
}

bool is_narrowed(const FieldSpec& field) {
  return has_classes(field) && field.classes > 0 && field.classes <= kU8Classes;
}

}  // namespace

std::vector<FieldSpec> npy_fields(const std::vector<FieldSpec>& specs,
                                  const std::vector<NamedOp>& transforms,
                                  std::vector<std::string>& problems) {
  std::vector<FieldSpec> fields = fields_after(transforms, specs, problems);
  std::set<std::string> names;
  for (FieldSpec& field : fields) {
    if (std::string problem = find_problem(field); !problem.empty())
      problems.push_back(std::move(problem));
    if (!names.insert(field.name).second)
      problems.push_back("two fields are called '" + field.name + "': give one another name");
    // Every uint8 is a valid index of 256 classes, so 256 means that the number of classes was not
    // given.
    const bool is_any = field.kind == FieldKind::mask && field.dtype == DType::uint8;
    if (is_any && field.classes == kU8Classes) field.classes = 0;
    if (is_narrowed(field)) field.dtype = DType::uint8;
  }
  return fields;
}

ConstArray npy_value(const FieldSpec& field, const ConstArray& value, HostArray& spare) {
  const bool may_narrow = is_narrowed(field) && value.dtype != DType::float32;
  if (value.shape != field.shape || (value.dtype != field.dtype && !may_narrow))
    throw Error("field '" + field.name + "' is " + std::string(to_string(value.dtype)) +
                " of shape " + to_string(value.shape) + ", not " +
                std::string(to_string(field.dtype)) + " of shape " + to_string(field.shape));
  if (!has_classes(field)) return value;
  if (value.dtype == DType::uint8) return stored<std::uint8_t>(field, value, spare);
  if (value.dtype == DType::int32) return stored<std::int32_t>(field, value, spare);
  return stored<std::int64_t>(field, value, spare);
}

}  // namespace slipstream
