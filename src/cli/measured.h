#pragma once

#include <string>

#include "cli/common_options.h"
#include "slipstream/engine/trainer.h"

namespace slipstream {

/// Options of the verbs that measure one workload under one plan.
struct MeasuredOptions {
  CommonOptions common;
  std::string plan = "pipelined";  ///< or "serial", or a file
  std::string transforms_device = "cpu";

  /// Adds the shared options of CommonOptions, --plan, --transforms-device and --batch-size, but
  /// not those of the workload. `cli` must outlive this object.
  void add_to(CLI::App& verb, const Cli& cli);
};

/// A workload on its device, ready to be measured.
class MeasuredRun {
 public:
  /// Prints the remarks of the data set. Throws Refused as CommonOptions does, and Interrupted.
  explicit MeasuredRun(const MeasuredOptions& options);

  const Environment& environment() const { return environment_; }
  const WorkloadInfo& workload() const { return declared_.info; }
  const Plan& plan() const { return plan_; }
  const Pipeline& pipeline() const { return declared_.pipeline; }  ///< until trainer()
  /// Creates a trainer from the pipeline. This object must outlive the trainer.
  Trainer trainer();

 private:
  Context context_;
  Environment environment_;  // collected before the run itself loads the machine
  Declared declared_;
  Plan plan_;
};

}  // namespace slipstream
