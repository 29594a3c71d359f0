#pragma once

#include <memory>
#include <optional>
#include <string>

#include "cli/common_options.h"
#include "cli/preview.h"
#include "report/progress_line.h"
#include "slipstream/engine/evaluation.h"

namespace slipstream {

/// The options of verbs that run a model without training.
struct EvaluatedOptions {
  CommonOptions common;
  std::string weights;
  bool weights_partial = false;
  bool overrides = false;  ///< whether options replace the checkpoint's recorded ones
  std::string plan = "pipelined";
  std::string transforms_device = "cpu";

  /// Adds the options. This object and `cli` must outlive the parser. Add the workload's options
  /// last.
  void add_to(CLI::App& verb, const Cli& cli);
  /// Returns the files and folders that are read, with their options.
  NamedPaths inputs() const;
  /// Hides options that only a training reads from --help. Call it after all options were added.
  static void hide_options_of_training(CLI::App& verb);
  /// Throws Refused, with the names, if any of these options were given.
  static void refuse_options_of_training(CLI::App& verb);
};

/// A model with its weights, ready to run over the data that the command line names.
class EvaluatedRun {
 public:
  /// Loads the model and its weights. Throws Refused. `cli` must outlive this object.
  EvaluatedRun(const EvaluatedOptions& options, const Cli& cli);

  Evaluator& evaluator() { return *evaluator_; }
  const Plan& plan() const { return plan_; }
  const Environment& environment() const { return environment_; }
  const WorkloadInfo& workload() const { return workload_; }
  /// Returns a preview of the data. This object and `file` must outlive it.
  Preview preview(const PreviewFlag& flag, OutputFile& file);
  /// Returns options with a progress line and an end at an interrupt. This object must outlive the
  /// run.
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
