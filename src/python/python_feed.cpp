#include "python/python_feed.h"

#include "python/tree.h"

namespace slipstream {

namespace py = pybind11;

PythonFeed::PythonFeed(py::handle source, c10::Device device) : source_(source), device_(device) {}

PythonFeed::~PythonFeed() {
  const py::gil_scoped_acquire locked;
  item_ = {};
}

bool PythonFeed::ready() {
  const py::gil_scoped_acquire locked;
  return source_.attr("ready")().cast<bool>();
}

bool PythonFeed::take() {
  const py::gil_scoped_acquire locked;
  try {
    item_ = source_.attr("take")();
  } catch (py::error_already_set& error) {
    if (error.matches(PyExc_StopIteration)) return false;
    throw;
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
