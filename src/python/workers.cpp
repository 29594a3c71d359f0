#include "python/workers.h"

#include <pybind11/stl.h>

#include "python/process_dataset.h"

namespace slipstream {
namespace {

namespace py = pybind11;
/// Name, whether it is an image, its type and shape.
using LeafOf = std::tuple<std::string, bool, at::ScalarType, std::vector<std::int64_t>>;

FieldSpec spec_of(const LeafOf& leaf) {
  const auto& [name, is_image, dtype, shape] = leaf;
  if (is_image) {
    const DType native = dtype == at::kFloat ? DType::float32 : DType::uint8;
    return {name, FieldKind::image, native, {shape.at(0), shape.at(1), shape.at(2)}};
  }
  auto bytes = static_cast<std::int64_t>(c10::elementSize(dtype));
  for (const std::int64_t size : shape) bytes *= size;
  return {name, FieldKind::other, DType::uint8, {bytes}};
}

std::shared_ptr<Dataset> process_dataset(std::shared_ptr<WorkerPool> pool, std::size_t size,
                                         std::string form, const std::vector<LeafOf>& leaves,
                                         bool has_texts) {
  std::vector<FieldSpec> specs;
  for (const LeafOf& leaf : leaves) specs.push_back(spec_of(leaf));
  return std::make_shared<ProcessDataset>(std::move(pool), size, std::move(form), std::move(specs),
                                          has_texts);
}

py::bytes described(WorkerPool& pool, std::uint64_t sample, std::uint64_t seed) {
  const WorkerRequest request{WorkerTask::describe, sample, 0,
                              python_seed({.seed = seed, .sample = sample}, 0)};
  std::string text;
  {
    const SignalsSeen seen(&pool);
    const py::gil_scoped_release unlocked;
    try {
      pool.ask(request, nullptr, [&](const WorkerAnswer& answer) { text = answer.text; });
    } catch (const WorkerLost& lost) {
      throw Error(lost.what());
    }
  }
  return text;
}

}  // namespace

SignalsSeen::SignalsSeen(WorkerPool* pool) : pool_(pool) {
  if (pool_ == nullptr) return;
  pool_->set_on_wait([] {
    const py::gil_scoped_acquire locked;
    if (PyErr_CheckSignals() != 0) throw py::error_already_set();
  });
}

SignalsSeen::~SignalsSeen() {
  if (pool_ != nullptr) pool_->set_on_wait(nullptr);
}

void add_workers(py::module_& module) {
  py::class_<WorkerPool, std::shared_ptr<WorkerPool>>(module, "WorkerPool")
      .def(py::init<>())
      .def("add", &WorkerPool::add)
      .def("describe", &described)
      .def("close", &WorkerPool::close, py::call_guard<py::gil_scoped_release>())
      .def("take_lost", &WorkerPool::take_lost)
      .def("descriptors", &WorkerPool::descriptors);
  module.def("process_dataset", &process_dataset);
}

}  // namespace slipstream
