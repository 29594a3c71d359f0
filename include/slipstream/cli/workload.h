#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "slipstream/cli/options.h"
#include "slipstream/engine/pipeline.h"

namespace slipstream {

/// A workload's own defaults of options that every workload has.
struct WorkloadDefaults {
  std::optional<std::size_t> batch_size = {};  ///< `bench` then measures this batch size alone
  std::optional<unsigned> num_workers = {};    ///< loader threads
};

/// A workload: a pipeline that the command line can make by its name.
struct Workload {
  std::string name;
  /// Makes the pipeline. It is called once for each run, on the calling thread, after PyTorch's
  /// generators were seeded with Options::seed.
  std::function<Pipeline(Options&)> make;
  /// The options of its own, beside those of every workload. With this workload the command line
  /// takes no others.
  OptionList options = {};
  WorkloadDefaults defaults = {};
};

/// Begins a pipeline over `dataset` with batch_size, seed, shuffle and drop_last of `options`.
/// Where the options `background`, `sampler`, `on-bad-sample` and `disk-cache` of data_options()
/// are declared, it does what they say. Throws Refused for a sampler that the data set cannot have.
Pipeline pipeline(std::shared_ptr<const Dataset> dataset, const Options& options);

/// Makes the optimizer that the options of optimizer_options() name. Where `weight-decay` has no
/// value, the optimizer's own default is taken. Throws Refused where a momentum is given for an
/// optimizer that has none.
std::shared_ptr<Optimizer> make_optimizer(const Options& options);

/// The workload of that name. Throws Refused for an unknown name, with the nearest known one.
const Workload& workload_named(const std::vector<Workload>& workloads, const std::string& name);

/// The options of the workload `name` with its defaults. Throws Refused for an unknown name, and
/// where the constructor of Options does.
Options find_options(const std::vector<Workload>& workloads, const std::string& name);

/// Seeds PyTorch's generators with Options::seed and makes the pipeline of the workload `name`.
/// After that `options` know what is in force. Throws Refused for an unknown name and for options
/// that were given and have no effect, and throws what the workload throws.
Pipeline make_pipeline(const std::vector<Workload>& workloads, const std::string& name,
                       Options& options);

/// The built-in workloads: "segmentation", "classification", "branches" and "starved"
/// (docs/workloads.md).
std::vector<Workload> built_in_workloads();

}  // namespace slipstream
