#include "bindings/workers.h"

#include <pybind11/stl.h>

#include <optional>
#include <utility>

#include "bindings/draws.h"
#include "bindings/gil.h"
#include "bindings/interrupts.h"
#include "bindings/process_dataset.h"

namespace slipstream {
namespace {

namespace py = pybind11;
/// A field of a sample: name, whether it is an image, dtype and shape.
using LeafSpec = std::tuple<std::string, bool, at::ScalarType, std::vector<std::int64_t>>;

FieldSpec make_spec(const LeafSpec& leaf) {
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
                                         std::string form, const std::vector<LeafSpec>& leaves,
                                         bool has_texts) {
  std::vector<FieldSpec> specs;
  for (const LeafSpec& leaf : leaves) specs.push_back(make_spec(leaf));
  return std::make_shared<ProcessDataset>(std::move(pool), size, std::move(form), std::move(specs),
                                          has_texts);
}

py::bytes described(WorkerPool& pool, std::uint64_t sample, std::uint64_t seed) {
  const WorkerRequest request{WorkerTask::describe, sample, 0,
                              python_seed({.seed = seed, .sample = sample}, 0)};
  std::string text;
  {
    const SignalWaitScope seen(&pool);
    const GilRelease unlocked;
    try {
      pool.ask(request, nullptr, [&](const WorkerAnswer& answer) { text = answer.text; });
    } catch (const WorkerLost& lost) {
      throw Error(lost.what());
    }
  }
  return text;
}

/// Calls a function once, at the latest in the destructor. A Ctrl-C is delayed until then, because
/// Python discards exceptions that are raised while it destroys an object.
class LastCall {
 public:
  explicit LastCall(py::function function) : function_(std::move(function)) {}
  ~LastCall() {
    try {
      call();
    } catch (py::error_already_set& error) {
      error.discard_as_unraisable("the end of worker processes");
    }
  }
  LastCall(const LastCall&) = delete;
  LastCall& operator=(const LastCall&) = delete;

  void call() {
    // Declared first, so that Ctrl-C stays delayed until the function's objects have been freed.
    const LateInterrupts late;
    if (const py::object function = std::exchange(function_, py::object())) function();
  }

 private:
  py::object function_;
};

struct LateBlock {
  std::optional<LateInterrupts> late = std::nullopt;
};

}  // namespace

SignalWaitScope::SignalWaitScope(WorkerPool* pool) : pool_(pool) {
  if (pool_ == nullptr) return;
  pool_->set_on_wait([] {
    const GilAcquire locked;
    if (PyErr_CheckSignals() != 0) throw py::error_already_set();
  });
}

SignalWaitScope::~SignalWaitScope() {
  if (pool_ != nullptr) pool_->set_on_wait(nullptr);
}

void add_workers(py::module_& module) {
  prepare_for_forks();
  py::class_<WorkerPool, std::shared_ptr<WorkerPool>>(module, "WorkerPool")
      .def(py::init<>())
      .def("add", &WorkerPool::add)
      .def("describe", &described)
      .def("close", &WorkerPool::close, py::call_guard<GilRelease>())
      .def("take_lost", &WorkerPool::take_lost)
      .def("descriptors", &WorkerPool::descriptors);
  py::class_<LastCall>(module, "LastCall")
      .def(py::init<py::function>())
      .def("__call__", &LastCall::call);
  py::class_<LateBlock>(module, "LateInterrupts")
      .def(py::init<>())
      .def("__enter__", [](LateBlock& block) { block.late.emplace(); })
      .def("__exit__", [](LateBlock& block, const py::args&) { block.late.reset(); });
  module.def("process_dataset", &process_dataset);
}

}  // namespace slipstream
