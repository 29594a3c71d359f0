#include "bindings/python_feed.h"

#include "bindings/gil.h"
#include "bindings/tree.h"

namespace slipstream {

namespace py = pybind11;

PythonFeed::PythonFeed(py::handle batches, py::handle ready, c10::Device device)
    : batches_(batches), ready_(ready), device_(device) {}

PythonFeed::~PythonFeed() {
  const GilAcquire locked;
  item_ = {};
}

bool PythonFeed::ready() {
  if (ready_.is_none()) return true;
  const GilAcquire locked;
  return call_python(ready_, {}).cast<bool>();
}

bool PythonFeed::take() {
  const GilAcquire locked;
  item_ = py::reinterpret_steal<py::object>(
      in_interpreter([this] { return PyIter_Next(batches_.ptr()); }));
  if (!item_) {
    if (PyErr_Occurred() != nullptr) throw py::error_already_set();
    return false;
  }
  is_on_device_ = false;
  if (device_.is_cuda())
    for_each_leaf(
        item_, [&](const at::Tensor& tensor) { is_on_device_ |= tensor.is_cuda(); },
        [](py::handle) {});
  return true;
}

py::object PythonFeed::moved(Lane&) {
  const py::object item = std::exchange(item_, {});
  return slipstream::moved(item, device_);
}

}  // namespace slipstream
