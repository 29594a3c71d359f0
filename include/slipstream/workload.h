#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "slipstream/pipeline.h"

namespace slipstream {

/// What the command line gives a workload to build its pipeline from.
struct Options {
  std::string data = "synthetic";  ///< a folder, or "synthetic"
  std::size_t batch_size = 8;
  std::uint64_t seed = 1;         ///< order, random draws and initial weights
  std::int64_t image_size = 256;  ///< height and width, pixels
  std::int64_t classes = 10;
  bool has_given_classes = false;  ///< then data that say another number are refused
  std::string chain;  ///< a chain file (docs/transforms.md); "": a Resize to the image size
  OnBadSample on_bad_sample = OnBadSample::stop;
  /// "each" sample once an epoch, "balanced" classes, or a file of weights, one a line and sample.
  std::string sampling = "each";
  std::string disk_cache;  ///< a folder (DiskCacheOptions); "": none
  std::uint64_t disk_cache_bytes = 0;
  std::string optimizer = "sgd";  ///< "sgd" or "adamw"
  double lr = 1e-3;
  double momentum = 0;  ///< of "sgd"
  /// Of the workload `branches` (docs/workloads.md); "" for all others.
  std::string mode;
  std::string fork = "auto";  ///< fork_mode_named()
  std::size_t members = 3;    ///< of the ensemble
  double load_ms = 100;       ///< host time that a batch costs to load, in mode "load"
  double step_ms = 200;       ///< device time that a step costs, in mode "load"
  /// Of the workload `starved` (docs/workloads.md); not set for all others.
  std::string transforms;     ///< "plain", which it is where not set, or "optimised"
  std::string costs;          ///< "": what the work takes; or "article": stated waits
  std::int64_t raw_size = 0;  ///< height and width of synthetic raw images; 0: 4 x image_size
};

/// What the command line takes where it is not told; the rest as in Options.
struct WorkloadDefaults {
  std::optional<std::size_t> batch_size = {};  ///< the only one that `bench` then measures
  std::optional<std::int64_t> image_size = {};
  std::optional<double> momentum = {};
  std::optional<unsigned> workers = {};  ///< loader threads
};

/// A name on the command line and the declaration behind it. `make` is called once a run, on the
/// calling thread, after PyTorch's generators were seeded with Options::seed.
struct Workload {
  std::string name;
  std::function<Pipeline(const Options&)> make;
  /// By the options that were given; may be empty.
  std::function<WorkloadDefaults(const Options&)> defaults = {};
};

/// The optimiser that Options name. Throws Refused for an unknown name, and a momentum of one that
/// has none.
std::shared_ptr<Optimizer> make_optimizer(const Options& options);

/// Builds the pipeline with PyTorch's generators seeded. Throws Refused for an unknown name, with
/// the nearest.
Pipeline make_pipeline(const std::vector<Workload>& workloads, const std::string& name,
                       const Options& options);

/// "segmentation", "classification", "branches" and "starved" (docs/workloads.md).
std::vector<Workload> built_in_workloads();

}  // namespace slipstream
