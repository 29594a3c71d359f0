#pragma once

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

/// The size of the last batch of an epoch, where that is smaller.
struct LastBatch {
  std::uint64_t batches_per_epoch = 1;
  std::int64_t batch_size = 1, size = 1;
};

/// function(*arguments). Ends a process that it forked, which has none of the run's threads.
pybind11::object call_in_run(pybind11::handle function, const pybind11::tuple& arguments);

// Functions of Python are called on the stream of a lane, with Python's lock while they enqueue and
// no longer. Labels and masks come as int64, as slipstream.DataLoader gives them. All of these need
// the lock when they are made. What they call is in a list of Python's (kept_in()).

/// function(*inputs), which calls `module`, gives a tensor. In training, what fills up the last
/// batch of an epoch is left off.
ModuleRef python_module(const pybind11::object& module, pybind11::handle kept,
                        pybind11::handle function, NamedFields inputs, LastBatch last);
/// function(output, *targets) gives a scalar.
Loss python_loss(pybind11::handle function, const std::string& input, NamedFields targets);
/// function(output, *targets) gives a score for each sample; the metric is their mean. `counted`: a
/// field with a row for each sample.
Metric python_metric(std::string name, pybind11::handle function, NamedFields targets,
                     std::string counted);
/// function(batch, number) gives the tuple `batch` of all `fields` with others in it. `number`: of
/// the batch, through all epochs. `module`: what it calls, or None.
FrozenStage python_stage(const pybind11::object& module, pybind11::handle kept,
                         pybind11::handle function, NamedFields fields);

/// Where a run threw what came from Python, throws that, with its type and traceback, and what the
/// run says of it as a note; else does nothing. Needs Python's lock.
void rethrow_of_python(const std::exception& error);

}  // namespace slipstream
