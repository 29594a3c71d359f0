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

/// What a workload declared, and with what in force.
struct Declared {
  Pipeline pipeline;
  WorkloadInfo info;
};

/// Options that the verbs over workloads share, and those of the workload.
struct CommonOptions {
  std::string workload;
  std::string device = "auto";
  std::string precision = "tf32";
  bool deterministic = false;
  std::string num_workers;                  ///< "", a number or "auto"
  std::vector<std::string> wire;            ///< FIELD=FORMAT
  std::optional<unsigned> prefetch_factor;  ///< batches ahead, of each worker
  std::optional<unsigned> read_ahead;
  std::string cpus;   ///< "", a list, or "gpu"
  std::string cache;  ///< STEP=SIZE
  bool scaled_decoding = false;
  TrainingFlags training;
  Options options{OptionList()};
  WorkloadDefaults defaults;  ///< of the workload
  bool given_precision = false;
  bool given_seed = false;

  /// `cli` must outlive this.
  void add_to(CLI::App& verb, const Cli& cli);
  /// The options --transforms-device and --batch-size. `transforms_device` must outlive the parser.
  void add_batch_to(CLI::App& verb, std::string& transforms_device);
  /// Those of the workload that the command line names; behind all others of `verb`. Throws Refused
  /// where a workload declares an option that the verb has.
  void add_workloads_own_to(CLI::App& verb);

  /// Whether the command line has a workload of that name.
  bool knows_workload(const std::string& name) const {
    return cli_->workload_called(name) != nullptr;
  }

  /// Folders that are written, with their options.
  NamedPaths output_folders() const;
  /// The chain that the option --transforms names, as JSON; "" without one.
  std::string transforms_json() const;

  /// Files that are read, with their options; `plan`: of the option --plan, or "".
  NamedPaths inputs(const std::string& plan = "") const;
  /// Throws Refused as make_pipeline() does, and where the pipeline is not what was asked for:
  /// batches of `batch_size` or, without it, --batch-size, the order of samples, the last batch.
  Declared declare(std::optional<std::size_t> batch_size = {}) const;

  /// The same pipeline on other data, for evaluation. Throws Refused where the workload has no
  /// option --data, and as above.
  Pipeline declare_on(const std::string& data) const;

  /// With what the device makes of them.
  Plan::Numerics numerics(DeviceKind device) const;
  /// For num_workers "auto", the loader of make() with its transforms on `transforms_device` is
  /// measured alone and gets as few as are enough.
  LoaderPlan loader(const Context& context, const std::string& transforms_device,
                    const std::function<Pipeline()>& make) const;
  /// For what plan_file() gave: refuses a plan that the pipeline cannot run, and takes the workers
  /// that were given, if any; "auto" measures the loader under the plan. Throws Refused.
  void adapt(Plan& plan, const Pipeline& pipeline, const Context& context) const;
  /// "serial" or "pipelined" with transforms on `transforms_device`, or the plan in a file. Throws
  /// Refused.
  Plan build_plan(const std::string& plan, const std::string& transforms_device,
                  const Pipeline& pipeline, const Context& context) const;
  /// The plan in the file `path`, with what was given on the command line but for the workers.
  /// `others`: what the option takes instead of a file, for messages. Throws Refused.
  Plan plan_file(const std::string& path, const std::vector<std::string>& others,
                 const Context& context) const;
  /// Changes what was given on the command line, but for the workers.
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
  NamedPaths given_texts_;  ///< of the workload's own options
};

/// Throws Refused, naming them, where the classes of `other` are not those of `trained`.
void check_same_classes(const Dataset& trained, const Dataset& other);

}  // namespace slipstream
