#include "bindings/stage_watch.h"

#include <algorithm>

#include "bindings/lane_memory.h"
#include "bindings/python_module.h"

namespace slipstream {
namespace {

namespace py = pybind11;

constexpr std::size_t kMembersAtOnce = 32;

bool has_still(py::handle names, py::handle name, py::handle value) {
  PyObject* const now = PyDict_GetItemWithError(names.ptr(), name.ptr());
  if (now == nullptr) PyErr_Clear();
  return now == value.ptr();
}

}  // namespace

StageWatch::StageWatch(const py::object& module, py::handle kept) {
  if (module.is_none()) return;
  for (const py::handle each : module.attr("modules")()) {
    watch_modes(each, kept);
    watch_tables(each, kept);
  }
  for (const char* const of : {"parameters", "buffers"})
    for (const py::handle each : module.attr(of)()) {
      const auto tensor = each.cast<at::Tensor>();
      tensors_.push_back({tensor, tensor_version(tensor)});
    }
}

/// Stores the modes. The modes of a TorchScript module are not attributes in Python and cannot
/// change.
void StageWatch::watch_modes(py::handle module, py::handle kept) {
  const py::handle own = kept_in(kept, module.attr("__dict__"));
  const py::str name("training");
  if (own.contains(name)) modes_.push_back({own, kept_in(kept, name), kept_in(kept, own[name])});
}

void StageWatch::watch_tables(py::handle module, py::handle kept) {
  for (const char* const table : {"_parameters", "_buffers", "_modules"}) {
    const py::object names = py::getattr(module, table, py::none());
    if (!PyDict_Check(names.ptr())) continue;
    kept_in(kept, names);
    for (const auto& [name, value] : py::reinterpret_borrow<py::dict>(names))
      members_.push_back({names, kept_in(kept, py::reinterpret_borrow<py::object>(name)),
                          kept_in(kept, py::reinterpret_borrow<py::object>(value))});
  }
}

std::string StageWatch::change(bool is_at_end) {
  const auto is_other = [](const Entry& entry) {
    return !has_still(entry.names, entry.name, entry.value);
  };
  if (std::any_of(modes_.begin(), modes_.end(), is_other))
    return "the mode of a module in it, training or evaluation, has changed";
  if (is_at_end || next_member_ >= members_.size()) next_member_ = 0;
  const std::size_t end =
      is_at_end ? members_.size() : std::min(next_member_ + kMembersAtOnce, members_.size());
  for (; next_member_ < end; ++next_member_)
    if (is_other(members_[next_member_]))
      return "one of its weights, buffers or modules has been replaced or removed";
  for (const Written& each : tensors_) {
    if (tensor_version(each.tensor) != each.version)
      return "one of its weights or buffers has been written";
    if (each.tensor.requires_grad()) return "one of its weights requires gradients";
  }
  return "";
}

}  // namespace slipstream
