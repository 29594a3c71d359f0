#include "datasets/array_form.h"

#include <algorithm>
#include <set>

#include "core/number_text.h"

namespace slipstream {
namespace {

std::string form_text(const ArrayForm& form) {
  return form.source + " is " + std::string(to_string(form.dtype)) + " of " + to_string(form.shape);
}

std::string kind_problem(const ArrayForm& form) {
  const bool is_integer = form.dtype != DType::float32;
  const std::size_t rank = form.shape.rank;
  switch (form.kind) {
    case FieldKind::image:
      if (form.dtype == DType::uint8 && rank == 4) return "";
      return form_text(form) + ": images are uint8, N x height x width x channels";
    case FieldKind::mask:
      if (is_integer && rank == 3) return "";
      return form_text(form) + ": masks are uint8, int32 or int64, N x height x width";
    case FieldKind::label:
      if (is_integer && rank == 1) return "";
      return form_text(form) + ": labels are uint8, int32 or int64, N";
    case FieldKind::boxes:
      if (!is_integer && rank == 3 && form.shape[2] == 4) return "";
      return form_text(form) + ": boxes are float32, N x boxes x 4";
    case FieldKind::other:
      break;
  }
  return rank > 0 ? "" : form_text(form) + ": the first dimension counts samples";
}

FieldSpec sample_spec(const ArrayForm& form) {
  FieldSpec spec{form.name, form.kind, form.dtype, {}, form.classes};
  spec.shape.rank = form.shape.rank > 0 ? form.shape.rank - 1 : 0;
  std::copy_n(form.shape.dims.begin() + 1, spec.shape.rank, spec.shape.dims.begin());
  return spec;
}

}  // namespace

std::vector<FieldSpec> sample_specs(const std::vector<ArrayForm>& forms,
                                    std::vector<std::string>& problems) {
  std::vector<FieldSpec> specs;
  std::set<std::string> names;
  if (forms.empty()) problems.emplace_back("no fields: give at least one array");
  for (const ArrayForm& form : forms) {
    if (form.name.empty()) problems.push_back(form.source + " has no field name: give one");
    if (!names.insert(form.name).second) {
      problems.push_back("two fields are called '" + form.name + "': give one another name");
    }
    if (form.classes < 0) problems.push_back(form.source + ": classes is negative");
    if (std::string problem = kind_problem(form); !problem.empty()) {
      problems.push_back(std::move(problem));
    }
    if (form.shape[0] != forms[0].shape[0]) {
      const auto samples = static_cast<std::uint64_t>(form.shape[0]);
      problems.push_back(form.source + " has " + format_count(samples, "sample") + ", but " +
                         forms[0].source + " has " + std::to_string(forms[0].shape[0]) +
                         ": all fields need the same number");
    }
    specs.push_back(sample_spec(form));
  }
  return specs;
}

}  // namespace slipstream
