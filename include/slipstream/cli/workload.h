#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "slipstream/cli/options.h"
#include "slipstream/engine/pipeline.h"

namespace slipstream {

/// A workload's defaults for options that every workload has.
struct WorkloadDefaults {
  std::optional<std::size_t> batch_size = {};  ///< `bench` then measures only this batch size
  std::optional<unsigned> num_workers = {};    ///< number of loader threads
};

/// A workload: a pipeline that the command line can create by its name.
struct Workload {
  std::string name;
  /// Creates the pipeline. Called once for each run, on the thread that called cli_main() or
  /// make_pipeline(), after PyTorch's generators were seeded with Options::seed.
  std::function<Pipeline(Options&)> make;
  /// The workload's options in addition to those of every workload. With this workload, the command
  /// line accepts no other options.
  OptionList options = {};
  WorkloadDefaults defaults = {};
};

/// Begins a pipeline over `dataset` with batch_size, seed, shuffle and drop_last of `options`. Also
/// applies the options `background`, `sampler`, `on-bad-sample` and `disk-cache` of data_options()
/// if they are declared. Throws Refused for a sampler that the data set does not support.
Pipeline pipeline(std::shared_ptr<const Dataset> dataset, const Options& options);

/// Creates the optimizer that the options of optimizer_options() describe. If `weight-decay` has no
/// value, uses the default of the optimizer. Throws Refused if a momentum is given for an optimizer
/// that has none.
std::shared_ptr<Optimizer> make_optimizer(const Options& options);

/// Returns the workload with this name. Throws Refused for an unknown name, with the nearest known
/// one.
const Workload& workload_named(const std::vector<Workload>& workloads, const std::string& name);

/// Returns the options of the workload `name` with its defaults. Throws Refused for an unknown
/// name, and for options that the constructor of Options refuses.
Options find_options(const std::vector<Workload>& workloads, const std::string& name);

/// Seeds PyTorch's generators with Options::seed, and creates the pipeline of the workload `name`.
/// Afterwards options.in_force() returns the options that were used. Throws Refused for an unknown
/// name and for options that were given but have no effect. Exceptions of the workload propagate.
Pipeline make_pipeline(const std::vector<Workload>& workloads, const std::string& name,
                       Options& options);

/// Returns the built-in workloads: "segmentation", "classification", "branches" and "starved"
/// (docs/workloads.md).
std::vector<Workload> built_in_workloads();

}  // namespace slipstream
