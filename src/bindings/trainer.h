#pragma once

#include <atomic>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "bindings/context_lease.h"
#include "bindings/contexts.h"
#include "bindings/interrupts.h"
#include "bindings/native_loader.h"
#include "bindings/trainer_settings.h"
#include "report/progress_line.h"
#include "slipstream/engine/checkpoint.h"
#include "slipstream/engine/evaluation.h"
#include "training/fit.h"
#include "training/run_logging.h"

namespace slipstream {

/// The trainer of a Python module. The constructor and all functions need the GIL; functions that
/// run lanes release it meanwhile. A trainer that runs reserves its device, and another one that
/// begins on the same device is refused.
class NativeTrainer {
 public:
  NativeTrainer(const std::shared_ptr<NativeLoader>& loader, const TrainerSettings& settings);

  std::uint64_t position() const { return trainer_->position(); }
  std::uint64_t digest() const;

  /// Selects the score that decides which epoch is best (fit_criterion()). Call it before open().
  void select_criterion(const std::optional<std::string>& chosen);
  /// Restores the checkpoint that `resume` selects, and begins the run folder. Without `resume`,
  /// throws Refused if the checkpoint folder already contains checkpoints. Returns
  /// LoadedCheckpoint::passed_over.
  std::vector<std::string> open(const std::string& resume);
  /// Reserves the device, and the checkpoint folder if there is one, for the calling thread until
  /// end(). Throws Refused if the folder contains checkpoints of later steps.
  void begin();
  void end();
  /// Restores a checkpoint. Throws Refused if there is a run folder, which cannot go back to an
  /// earlier step.
  void restore(const std::string& path);
  /// Calls Fit::run() between begin() and end(). `calls`: a slipstream._fit.FitCalls. `options`:
  /// contains the callbacks and the early stop; the trainer sets all other options. Throws
  /// KeyboardInterrupt after a Ctrl-C.
  FitResult fit(pybind11::handle calls, bool calls_on_step, FitOptions options);
  /// Calls FitSteps::train() without the GIL. If `raised` gets a value, the run ends and throws it.
  RunResult train(RunOptions options, const std::exception_ptr& raised);
  /// Makes train() end after the steps in flight. Any thread may call this.
  void stop() { is_stopped_ = true; }
  /// Whether this is the process that created the trainer. In a forked process, calls are refused.
  bool is_here() const { return made_in_.is_this_process(); }
  /// Calls FitSteps::save() without the GIL.
  bool save(const std::optional<CheckpointScore>& score);
  /// Shows `progress` in the progress line, as FitSteps::show().
  void show(const Progress& progress);
  /// TrainStep::lr() of the trained module.
  std::optional<double> lr(std::uint64_t batch) const {
    return trainer_->pipeline().train_step()->lr(batch);
  }
  std::uint64_t first_step() const { return history_.first_step; }
  /// Returns the problem with checkpoints since the last call, as a sentence, or "".
  std::string problem();
  /// Ends the progress line and updates the run folder. Returns the problem with the folder, as a
  /// sentence, or "".
  std::string finish();
  /// Returns copies of the running averages of weights.
  std::vector<NamedTensor> averages() const;

 private:
  friend class NativeEvaluator;

  /// Calls `call` without the GIL. Exceptions of Python inside are rethrown unchanged. `handlers`:
  /// called while lanes run; nullptr if no lanes run.
  template <typename Call>
  auto run_unlocked(Call call, SignalHandlers* handlers = nullptr,
                    std::thread::id owner = std::this_thread::get_id()) const;
  Plan build_plan(const Pipeline& pipeline, const std::string& mode) const;
  std::unique_ptr<Checkpoints> taken_folder();
  /// Returns the plan as JSON, or "" if the first run will choose it.
  std::string known_plan() const { return mode_ == "auto" ? "" : to_json_text(plan_); }
  RunResult run(const RunOptions& options);

  ProcessGuard made_in_;
  std::shared_ptr<NativeLoader> loader_;
  std::shared_ptr<Context> context_;  ///< context of this process; the loader's may be its parent's
  pybind11::handle module_;
  Plan::Numerics numerics_;
  std::string mode_, transforms_device_;
  bool in_one_thread_, shows_progress_;
  LoaderPlan loading_;
  CheckpointOptions saving_;
  RunLogOptions logging_;
  std::vector<std::string> command_;
  std::uint64_t steps_;
  WorkloadInfo workload_;
  std::optional<Trainer> trainer_;
  Plan plan_;
  std::unique_ptr<Checkpoints> checkpoints_;
  std::vector<std::unique_ptr<ContextHold>> held_;
  std::optional<RunLogging> log_;
  std::string criterion_;
  FitHistory history_;
  std::unique_ptr<ProgressLine> line_;           ///< shows the history
  std::set<std::filesystem::path> passed_over_;  ///< damaged checkpoints of later steps
  std::atomic<bool> is_stopped_ = false;
};

/// Evaluates a trainer's module on other data.
class NativeEvaluator {
 public:
  /// `counts_scores`: whether it is for evaluate(), otherwise for predict(). `may_differ`: whether
  /// images may have another shape or range than in training.
  NativeEvaluator(std::shared_ptr<NativeTrainer> trainer, std::shared_ptr<NativeLoader> loader,
                  bool counts_scores, bool may_differ);

  EvaluationResult evaluate();
  /// Calls `take` with each batch of outputs, in host memory and in order, until it returns False.
  /// Returns false if it was interrupted. Reserves the device for the thread that created the
  /// evaluator.
  bool predict(const pybind11::object& take);
  /// Makes evaluate() end without scores. Any thread may call this.
  void stop() { is_stopped_ = true; }

 private:
  std::shared_ptr<NativeTrainer> trainer_;
  std::shared_ptr<NativeLoader> loader_;
  std::unique_ptr<Evaluator> evaluator_;
  Plan plan_;
  std::thread::id made_by_ = std::this_thread::get_id();
  std::atomic<bool> is_stopped_ = false;
};

void add_trainer(pybind11::module_& module);

}  // namespace slipstream
