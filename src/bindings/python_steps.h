#pragma once

#include <functional>
#include <string>
#include <vector>

#include "bindings/python_module.h"
#include "slipstream/datasets/dataset.h"
#include "slipstream/engine/pipeline.h"

namespace slipstream {

/// A field of a batch, and whether it holds class numbers.
struct NamedField {
  std::string name;
  bool is_number = false;
};
using NamedFields = std::vector<NamedField>;
NamedFields collect_fields(const Dataset& dataset);

/// The number of samples in each batch of a training.
struct BatchSizes {
  std::int64_t full = 1;  ///< samples of a slab; those after the batch's own only fill it up
  std::function<std::int64_t(std::uint64_t batch)> size;
};

/// Calls function(*arguments). If the function forks and returns in the child, ends the child,
/// which has none of the run's threads.
pybind11::object call_in_run(pybind11::handle function, const pybind11::tuple& arguments);

// The following functions wrap functions of Python. These are called on the stream of a lane, and
// the GIL is held only while they enqueue work. Labels and masks are passed as int64, as
// slipstream.DataLoader returns them. Creating a wrapper needs the GIL. The called objects are in a
// Python list (kept_in()).

/// Wraps function(*inputs), which calls `module` and returns a tensor. In training, samples that
/// only fill up a smaller batch are not passed.
ModuleRef python_module(const pybind11::object& module, pybind11::handle kept,
                        pybind11::handle function, NamedFields inputs, BatchSizes sizes);
/// Wraps function(output, *targets), which returns a scalar.
Loss python_loss(pybind11::handle function, const std::string& input, NamedFields targets);
/// Wraps function(output, *targets), which returns a score for each sample. The metric is their
/// mean. `counted`: a field with a row for each sample.
Metric python_metric(std::string name, pybind11::handle function, NamedFields targets,
                     std::string counted);
/// Wraps function(batch, number), which returns `batch`, the tuple of all `fields`, with changed
/// values. `number`: index of the batch, counted through all epochs. `module`: the module that the
/// function calls, or None.
FrozenStage python_stage(const pybind11::object& module, pybind11::handle kept,
                         pybind11::handle function, NamedFields fields);

/// If `error`, thrown by a run, was caused by an exception of Python, throws that exception with
/// its type and traceback, and with the run's message as a note. Otherwise does nothing. Needs the
/// GIL.
void rethrow_of_python(const std::exception& error);

}  // namespace slipstream
