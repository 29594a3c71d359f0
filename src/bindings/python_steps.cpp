#include "bindings/python_steps.h"

#include <c10/util/Exception.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/autograd/python_variable.h>
#include <unistd.h>

#include "bindings/gil.h"
#include "bindings/interrupts.h"
#include "bindings/loop_error.h"
#include "slipstream/core/error.h"

namespace slipstream {
namespace {

namespace py = pybind11;

bool is_out_of_device_memory(const py::error_already_set& error) {
  return error.matches(py::module_::import("torch").attr("OutOfMemoryError"));
}

/// Throws OutOfMemoryError. Clears the frames of the traceback, which would keep tensors alive: the
/// caller then measures how much memory is free.
[[noreturn]] void throw_out_of_memory(py::error_already_set& error) {
  const std::string message = py::str(error.value());
  if (error.trace()) py::module_::import("traceback").attr("clear_frames")(error.trace());
  std::throw_with_nested(
      c10::OutOfMemoryError({__func__, __FILE__, static_cast<std::uint32_t>(__LINE__)}, message));
}

[[noreturn]] void end_forked(const py::error_already_set* error) {
  try {
    const py::object raised = error != nullptr ? error->value() : py::object(py::none());
    // The exception's class may reject the attribute.
    if (error != nullptr && error->trace())
      PyException_SetTraceback(raised.ptr(), error->trace().ptr());
    py::module_::import("slipstream._fit").attr("end_forked")(raised);
  } catch (const std::exception&) {
    // The forked child must not continue the parent's program.
  }
  ::_exit(1);
}

py::object called(py::handle function, const py::tuple& arguments) {
  // A second Ctrl-C ends the run at once. Python calls signal handlers only on its main thread,
  // which may not be this one, so the exception is raised here.
  if (Interrupts::count() > 1) {
    PyErr_SetNone(PyExc_KeyboardInterrupt);
    throw py::error_already_set();
  }
  try {
    return call_in_run(function, arguments);
  } catch (py::error_already_set& error) {
    if (is_out_of_device_memory(error)) throw_out_of_memory(error);
    add_remedy(error, arguments);
    throw;
  }
}

/// Converts labels to int64. With few classes they are copied to the device as bytes.
at::Tensor as_python_has_it(const NamedField& field, const at::Tensor& tensor) {
  const bool is_short = field.is_number && tensor.scalar_type() == at::kByte;
  return is_short ? tensor.to(at::kLong) : tensor;
}

py::tuple make_arguments(const Batch& batch, const NamedFields& fields, const at::Tensor* first) {
  py::list all;
  if (first != nullptr) all.append(*first);
  for (const NamedField& field : fields) all.append(as_python_has_it(field, batch.at(field.name)));
  return py::tuple(all);
}

at::Tensor require_tensor(py::handle value, const std::string& who) {
  if (THPVariable_Check(value.ptr())) return THPVariable_Unpack(value.ptr());
  throw Error(who + " must return a tensor, but returned " +
              std::string(py::str(py::type::of(value).attr("__name__"))));
}

void leave_off_what_fills_up(Batch& batch, const BatchSizes& sizes) {
  const std::int64_t size = sizes.size(batch.number());
  if (size == sizes.full) return;
  for (const auto& [name, tensor] : std::vector(batch.fields()))
    if (tensor.dim() > 0 && tensor.size(0) == sizes.full)
      batch.set(name, tensor.narrow(0, 0, size), batch.classes(name));
}

class TrainedModule final : public PythonModule {
 public:
  TrainedModule(const py::object& module, py::handle kept, py::handle function, NamedFields inputs,
                BatchSizes sizes)
      : PythonModule(module, kept),
        function_(function),
        inputs_(std::move(inputs)),
        sizes_(std::move(sizes)) {}

  at::Tensor forward(Batch& batch) {
    if (is_training()) leave_off_what_fills_up(batch, sizes_);
    const GilAcquire locked;
    check_same();
    const py::object output = called(function_, make_arguments(batch, inputs_, nullptr));
    check_same();
    return require_tensor(output, "the module");
  }

 private:
  py::handle function_;
  NamedFields inputs_;
  BatchSizes sizes_;
};

void add_note(py::error_already_set& raised, const std::string& place) {
  const py::module_ signals = py::module_::import("slipstream._signals");
  signals.attr("add_note")(raised.value(), signals.attr("describe_place")(
                                               raised.value(), find_traceback(raised), place));
}

/// Finds a nested exception of Python; nullptr if there is none.
std::exception_ptr find_origin(const std::exception& error) {
  if (dynamic_cast<const py::error_already_set*>(&error) != nullptr ||
      dynamic_cast<const python_error*>(&error) != nullptr)
    return std::current_exception();
  try {
    std::rethrow_if_nested(error);
  } catch (const std::exception& inner) {
    return find_origin(inner);
  } catch (...) {
  }
  return nullptr;
}

}  // namespace

py::object call_in_run(py::handle function, const py::tuple& arguments) {
  const pid_t process = ::getpid();
  try {
    py::object result = call_python(function, arguments);
    if (::getpid() != process) end_forked(nullptr);
    return result;
  } catch (const py::error_already_set& error) {
    if (::getpid() != process) end_forked(&error);
    throw;
  }
}

NamedFields collect_fields(const Dataset& dataset) {
  NamedFields all;
  for (const FieldSpec& field : dataset.fields())
    all.push_back({field.name, field.kind == FieldKind::label || field.kind == FieldKind::mask});
  return all;
}

ModuleRef python_module(const py::object& module, py::handle kept, py::handle function,
                        NamedFields inputs, BatchSizes sizes) {
  BatchSize size = sizes.size;
  ModuleRef made(
      std::make_shared<TrainedModule>(module, kept, function, std::move(inputs), std::move(sizes)));
  made.batch_size = std::move(size);
  return made;
}

Loss python_loss(py::handle function, const std::string& input, NamedFields targets) {
  return {input,
          [function, targets = std::move(targets)](const at::Tensor& output, const Batch& batch) {
            const GilAcquire locked;
            const py::object value = called(function, make_arguments(batch, targets, &output));
            at::Tensor loss = require_tensor(value, "the loss");
            if (loss.numel() != 1 || !loss.is_floating_point())
              throw Error(
                  "the loss must return one floating-point number, such as the mean over the "
                  "batch, but returned a tensor of " +
                  c10::str(loss.scalar_type(), " ", loss.sizes()));
            return LossValue{loss.reshape({}).to(at::kFloat), {}, {}, 0};
          }};
}

Metric python_metric(std::string name, py::handle function, NamedFields targets,
                     std::string counted) {
  const std::string who = "the metric '" + name + "'";
  const auto add = [function, targets = std::move(targets), counted = std::move(counted), who](
                       at::Tensor& counts, const at::Tensor& output, const Batch& batch) {
    const GilAcquire locked;
    const py::object value = called(function, make_arguments(batch, targets, &output));
    const at::Tensor scores = require_tensor(value, who);
    const std::int64_t samples = batch.at(counted).size(0);
    const bool is_one_each =
        scores.dim() > 0 && scores.size(0) == samples && scores.numel() == samples;
    if (!is_one_each || scores.is_complex())
      throw Error(who + " must return a real score for each of " + std::to_string(samples) +
                  " samples, but returned a tensor of " + c10::str(scores.sizes()) + ", " +
                  c10::toString(scores.scalar_type()));
    counts.select(0, 0).add_(scores.to(at::kDouble).sum());
    counts.select(0, 1).add_(static_cast<double>(scores.numel()));
  };
  return {std::move(name), {2}, add, [](const at::Tensor& counts) {
            return counts[0].item<double>() / counts[1].item<double>();
          }};
}

FrozenStage python_stage(const py::object& module, py::handle kept, py::handle function,
                         NamedFields fields) {
  const auto run = [function, fields = std::move(fields)](Batch& batch) {
    const GilAcquire locked;
    const py::tuple before = make_arguments(batch, fields, nullptr);
    const py::object after = called(function, py::make_tuple(before, batch.number()));
    if (!py::isinstance<py::tuple>(after) || py::len(after) != fields.size())
      throw Error("the stage must return a tuple of " + std::to_string(fields.size()) +
                  " elements, like its input");
    for (std::size_t i = 0; i < fields.size(); ++i) {
      const py::object value = after.cast<py::tuple>()[i];
      if (!value.is(before[i])) batch.set(fields[i].name, require_tensor(value, "the stage"));
    }
  };
  if (module.is_none()) return {nullptr, run, /*takes_zeros=*/false};
  return {std::make_shared<PythonModule>(module, kept), run, /*takes_zeros=*/false};
}

void rethrow_of_python(const std::exception& error) {
  const std::exception_ptr origin = find_origin(error);
  if (origin == nullptr) return;
  std::string note = error.what();
  note = "slipstream.Trainer: " + note.substr(0, note.find("\n\nAt:\n"));
  try {
    with_python_errors([&] { std::rethrow_exception(origin); });
  } catch (py::error_already_set& raised) {
    add_note(raised, note);
    throw;
  }
}

}  // namespace slipstream
