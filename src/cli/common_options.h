#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cli/training_flags.h"
#include "cli/verbs.h"
#include "engine/environment.h"
#include "report/report.h"
#include "slipstream/cli/workload.h"
#include "slipstream/engine/context.h"

namespace slipstream {

/// The pipeline that a workload declared, and the options that are in force.
struct Declared {
  Pipeline pipeline;
  WorkloadInfo info;
};

/// The options that all verbs for workloads share, and the options of the workload.
struct CommonOptions {
  std::string workload;
  std::string device = "auto";
  std::string precision = "tf32";
  bool deterministic = false;
  std::string num_workers;                  ///< "", a number or "auto"
  std::vector<std::string> wire;            ///< FIELD=FORMAT
  std::optional<unsigned> prefetch_factor;  ///< prefetched batches per worker
  std::optional<unsigned> read_ahead;
  std::string cpus;   ///< "", a list, or "gpu"
  std::string cache;  ///< STEP=SIZE
  bool scaled_decoding = false;
  TrainingFlags training;
  Options options{OptionList()};
  WorkloadDefaults defaults;  ///< defaults of the workload
  bool given_precision = false;
  bool given_seed = false;

  /// Adds the shared options to `verb`. `cli` must outlive this object.
  void add_to(CLI::App& verb, const Cli& cli);
  /// Adds --transforms-device and --batch-size. `transforms_device` must outlive the parser.
  void add_batch_to(CLI::App& verb, std::string& transforms_device);
  /// Adds the options of the workload that the command line names. Call it after all other options
  /// of `verb` were added. Throws Refused if the workload declares an option that the verb already
  /// has.
  void add_workloads_own_to(CLI::App& verb);

  /// Whether there is a workload with this name.
  bool knows_workload(const std::string& name) const {
    return cli_->workload_called(name) != nullptr;
  }

  /// Returns the folders that are written, with their options.
  NamedPaths output_folders() const;
  /// Returns the transforms of the option --transforms as JSON, or "".
  std::string transforms_json() const;

  /// Returns the files that are read, with their options. `plan`: the value of --plan, or "".
  NamedPaths inputs(const std::string& plan = "") const;
  /// Creates the pipeline. Throws Refused as make_pipeline() does, and if the pipeline differs from
  /// the request: in the size of batches (`batch_size`, or --batch-size if empty), the order of
  /// samples, or the last batch.
  Declared declare(std::optional<std::size_t> batch_size = {}) const;

  /// Creates the same pipeline on other data, for evaluation. Throws Refused if the workload has no
  /// option --data, and as declare() does.
  Pipeline declare_on(const std::string& data) const;

  /// Returns the numerics fields of the plan, with their effect on this device.
  Plan::Numerics numerics(DeviceKind device) const;
  /// Returns the loader's part of the plan. If num_workers is "auto", measures the loader of
  /// make(), with transforms on `transforms_device`, and uses the smallest sufficient number of
  /// workers.
  LoaderPlan loader(const Context& context, const std::string& transforms_device,
                    const std::function<Pipeline()>& make) const;
  /// Adapts the result of plan_file(): sets the number of workers if it was given, where "auto"
  /// measures the loader under the plan. Throws Refused if the pipeline cannot run the plan.
  void adapt(Plan& plan, const Pipeline& pipeline, const Context& context) const;
  /// Returns the plan "serial" or "pipelined", with transforms on `transforms_device`, or the plan
  /// in a file. Throws Refused.
  Plan build_plan(const std::string& plan, const std::string& transforms_device,
                  const Pipeline& pipeline, const Context& context) const;
  /// Returns the plan in the file `path`, with the options of the command line applied except for
  /// the number of workers. `others`: values of the option that are neither a file nor a mode, for
  /// messages. Throws Refused.
  Plan plan_file(const std::string& path, const Context& context,
                 const std::vector<std::string>& others = {}) const;
  /// Applies the options of the command line to `plan`, except for the number of workers.
  void change(Plan& plan, const Context& context) const;

 private:
  void add_loader_to(CLI::App& verb);
  void check_made(const Pipeline& made, const Options& asked, bool asked_for_size) const;
  void add_own(CLI::App& verb, const Option& option);
  void set_wire(Plan& plan) const;
  void set_prefetch(LoaderPlan& loader) const;
  unsigned enough_workers(const Pipeline& pipeline, const Plan& plan) const;

  const Cli* cli_ = nullptr;
  bool given_batch_size_ = false;
  bool given_shuffle_ = false;
  bool given_drop_last_ = false;
  bool given_transforms_device_ = false;
  NamedPaths given_texts_;  ///< paths in the workload's options
};

/// Throws Refused, with the differences, if the classes of `other` are not those of `trained`.
void check_same_classes(const Dataset& trained, const Dataset& other);

}  // namespace slipstream
