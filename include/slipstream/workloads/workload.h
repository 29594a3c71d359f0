#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "slipstream/run/pipeline.h"
#include "slipstream/workloads/options.h"

namespace slipstream {

/// What the command line takes where it is not told.
struct WorkloadDefaults {
  std::optional<std::size_t> batch_size = {};  ///< the only one that `bench` then measures
  std::optional<unsigned> num_workers = {};    ///< loader threads
};

/// A name on the command line and the declaration behind it.
struct Workload {
  std::string name;
  /// Called once a run, on the calling thread, after PyTorch's generators were seeded with
  /// Options::seed.
  std::function<Pipeline(Options&)> make;
  /// That it takes, beside what every workload does. The command line takes no others with it.
  OptionList options = {};
  WorkloadDefaults defaults = {};
};

/// A pipeline over `dataset` with the members of Options. Of what data_options() lists it does what
/// `background`, `sampler`, `on-bad-sample` and `disk-cache` say, where they are declared. Throws
/// Refused for a sampler that the data set cannot have.
Pipeline pipeline(std::shared_ptr<const Dataset> dataset, const Options& options);

/// The optimizer that optimizer_options() name, with its own weight decay where `weight-decay` has
/// no value. Throws Refused for a momentum of one that has none.
std::shared_ptr<Optimizer> make_optimizer(const Options& options);

/// The workload of that name. Throws Refused for an unknown one, with the nearest.
const Workload& workload_named(const std::vector<Workload>& workloads, const std::string& name);

/// The workload's options with its defaults, none given. Throws Refused as workload_named() and
/// Options do.
Options options_of(const std::vector<Workload>& workloads, const std::string& name);

/// Builds the pipeline with PyTorch's generators seeded; `options` then know what is in force.
/// Throws Refused as workload_named() does, and for options that were given and are of no effect.
Pipeline make_pipeline(const std::vector<Workload>& workloads, const std::string& name,
                       Options& options);

/// "segmentation", "classification", "branches" and "starved" (docs/workloads.md).
std::vector<Workload> built_in_workloads();

}  // namespace slipstream
