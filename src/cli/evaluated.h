#pragma once

#include <memory>
#include <optional>
#include <string>

#include "cli/common_options.h"
#include "cli/preview.h"
#include "report/progress_line.h"
#include "slipstream/engine/evaluation.h"

namespace slipstream {

/// The options of the verbs that run a model and train nothing.
struct EvaluatedOptions {
  CommonOptions common;
  std::string weights;
  bool weights_partial = false;
  bool overrides = false;  ///< of what the checkpoint records
  std::string plan = "pipelined";
  std::string transforms_device = "cpu";

  /// This and `cli` must outlive the parser. The workload's own options are to be added last.
  void add_to(CLI::App& verb, const Cli& cli);
  /// Files and folders that are read, with their options.
  NamedPaths inputs() const;
  /// Leaves the options that only a training reads out of the help. Called after all were added.
  static void hide_options_of_training(CLI::App& verb);
  /// Throws Refused, naming all of them that were given.
  static void refuse_options_of_training(CLI::App& verb);
};

/// A model with its weights, ready to run over the data that the command line names.
class EvaluatedRun {
 public:
  /// Throws Refused. `cli` must outlive this.
  EvaluatedRun(const EvaluatedOptions& options, const Cli& cli);

  Evaluator& evaluator() { return *evaluator_; }
  const Plan& plan() const { return plan_; }
  const Environment& environment() const { return environment_; }
  const WorkloadInfo& workload() const { return workload_; }
  /// A preview of its data, which this and `file` must outlive.
  Preview preview(const PreviewFlag& flag, OutputFile& file);
  /// With the progress line, and ended by an interrupt. This must outlive the run.
  RunOptions options();
  /// Clears the progress line.
  void finish() { line_.finish(); }

 private:
  EvaluatedRun(const Cli& cli, const EvaluatedOptions& options);

  const Cli& cli_;
  Context context_;
  Environment environment_;
  WorkloadInfo workload_;
  std::optional<Pipeline> model_;
  std::unique_ptr<Evaluator> evaluator_;
  Plan::Numerics numerics_;
  Plan plan_;
  ProgressLine line_;
};

}  // namespace slipstream
