#include "engine/copy_values.h"

#include <cstring>

#include "slipstream/core/error.h"

namespace slipstream {
namespace {

bool is_repeated_along(const at::Tensor& tensor, std::int64_t dimension) {
  return tensor.size(dimension) > 1 && tensor.stride(dimension) == 0;
}

bool has_repeats(const at::Tensor& tensor) {
  if (tensor.layout() != at::kStrided) return false;
  for (std::int64_t i = 0; i < tensor.dim(); ++i)
    if (is_repeated_along(tensor, i)) return true;
  return false;
}

/// Returns one element of `values` for each distinct address in `expanded`.
at::Tensor without_repeats(at::Tensor values, const at::Tensor& expanded) {
  for (std::int64_t i = 0; i < expanded.dim(); ++i)
    if (is_repeated_along(expanded, i)) values = values.narrow(i, 0, 1);
  return values;
}

}  // namespace

void copy_values(const at::Tensor& to, const at::Tensor& from) {
  const at::Tensor target = to.detach();
  if (!has_repeats(target)) {
    target.copy_(from);
    return;
  }
  without_repeats(target, target).copy_(without_repeats(from, target));
}

std::string lost_by_copy(const std::string& name, const at::Tensor& to, const at::Tensor& from) {
  if (!has_repeats(to)) return "";
  const at::Tensor values = from.detach().to(at::kCPU).contiguous();
  const at::Tensor repeated = without_repeats(values, to).expand_as(values).contiguous();
  if (std::memcmp(values.const_data_ptr(), repeated.const_data_ptr(), values.nbytes()) == 0)
    return "";
  return "the elements of '" + printable_name(name) +
         "' share memory in the model, as after expand(), but have different values in the file or "
         "state. Give the tensor separate memory with contiguous() or clone() where the model is "
         "created";
}

}  // namespace slipstream
