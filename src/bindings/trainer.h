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

/// The trainer of a module of Python. Needs Python's lock when it is made; all that runs gives it
/// up meanwhile. One that runs takes its device: another one that begins there is refused.
class NativeTrainer {
 public:
  NativeTrainer(const std::shared_ptr<NativeLoader>& loader, const TrainerSettings& settings);

  std::uint64_t position() const { return trainer_->position(); }
  std::uint64_t digest() const;

  /// Selects the score that decides which epoch is best: fit_criterion(). To be called before
  /// open().
  void select_criterion(const std::optional<std::string>& chosen);
  /// Goes to where `resume` says, and begins the run folder. What is in the folder of checkpoints
  /// is refused without `resume`. Returns LoadedCheckpoint::passed_over.
  std::vector<std::string> open(const std::string& resume);
  /// Takes the device for the calling thread and the folder of checkpoints, if one was given, until
  /// end(). Throws Refused where the folder has those of later steps.
  void begin();
  void end();
  /// Goes to a checkpoint. Throws Refused where there is a run folder, which does not go back.
  void restore(const std::string& path);
  /// Fit::run() between begin() and end(). `calls`: a slipstream._fit.FitCalls. `options`: what is
  /// called and the early stop; all others are the trainer's. Throws KeyboardInterrupt after a
  /// Ctrl-C.
  FitResult fit(pybind11::handle calls, bool calls_on_step, FitOptions options);
  /// FitSteps::train() without Python's lock. The run ends where `raised` gets a value, which is
  /// thrown then.
  RunResult train(RunOptions options, const std::exception_ptr& raised);
  /// Lets train() end behind the steps in flight. Any thread may call it.
  void stop() { is_stopped_ = true; }
  /// Whether this is the process that made it. Another one, which was forked, is refused.
  bool is_here() const { return made_in_.is_this_process(); }
  /// FitSteps::save() without Python's lock.
  bool save(const std::optional<CheckpointScore>& score);
  /// FitSteps::show() for the progress line.
  void show(const Progress& progress);
  /// TrainStep::lr() of the trained module.
  std::optional<double> lr(std::uint64_t batch) const {
    return trainer_->pipeline().train_step()->lr(batch);
  }
  std::uint64_t first_step() const { return history_.first_step; }
  /// What went wrong with checkpoints since the last call, in a sentence; "" for nothing.
  std::string problem();
  /// Ends the progress line and brings the run folder up to date. What went wrong there, in a
  /// sentence; "" for nothing.
  std::string finish();
  /// Copies of the running averages.
  std::vector<NamedTensor> averages() const;

 private:
  friend class NativeEvaluator;

  /// Runs without Python's lock; what Python raised inside is thrown as it was. `handlers`: look
  /// while lanes run; nullptr: no run.
  template <typename Call>
  auto run_unlocked(Call call, SignalHandlers* handlers = nullptr,
                    std::thread::id owner = std::this_thread::get_id()) const;
  Plan build_plan(const Pipeline& pipeline, const std::string& mode) const;
  std::unique_ptr<Checkpoints> taken_folder();
  /// As JSON; "" where the first run finds out which one is faster.
  std::string known_plan() const { return mode_ == "auto" ? "" : to_json_text(plan_); }
  RunResult run(const RunOptions& options);

  ProcessGuard made_in_;
  std::shared_ptr<NativeLoader> loader_;
  std::shared_ptr<Context> context_;  ///< of this process; the loader's may be another one's
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

/// What a module makes of other data.
class NativeEvaluator {
 public:
  /// counts_scores: for evaluate(), otherwise for predict(). may_differ: lets images have another
  /// shape or range than in training.
  NativeEvaluator(std::shared_ptr<NativeTrainer> trainer, std::shared_ptr<NativeLoader> loader,
                  bool counts_scores, bool may_differ);

  EvaluationResult evaluate();
  /// Calls `take` with each batch of outputs, in host memory, in order; ends where it gives False.
  /// False where it was interrupted. Runs for the thread that made the evaluator.
  bool predict(const pybind11::object& take);
  /// Lets evaluate() end without scores. Any thread may call it.
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
