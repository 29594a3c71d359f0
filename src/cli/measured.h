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

  bool names_mode() const { return plan == "serial" || plan == "pipelined"; }

  /// Those of CommonOptions but for the workload's own, --plan, --transforms-device and
  /// --batch-size. `cli` must outlive this.
  void add_to(CLI::App& verb, const Cli& cli);
};

/// A workload on its device, ready to be measured.
class MeasuredRun {
 public:
  /// Tells what the data set remarks. Throws Refused as CommonOptions does, and Interrupted.
  explicit MeasuredRun(const MeasuredOptions& options);

  const Environment& environment() const { return environment_; }
  const WorkloadInfo& workload() const { return declared_.info; }
  const Plan& plan() const { return plan_; }
  const Pipeline& pipeline() const { return declared_.pipeline; }  ///< until trainer()
  /// Takes the pipeline, and must not outlive this.
  Trainer trainer();

 private:
  Context context_;
  Environment environment_;  // as it is before the run is part of it
  Declared declared_;
  Plan plan_;
};

}  // namespace slipstream
