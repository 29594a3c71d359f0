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
#include "training/run_logging.h"

namespace slipstream {

/// What one part of a training did.
struct TrainedPart {
  std::uint64_t steps = 0;
  bool interrupted = false;
  double seconds = 0;
  std::optional<double> steps_per_second;
  std::vector<float> losses;
};

/// The trainer of a module of Python. Needs Python's lock when it is made; all that runs gives it
/// up meanwhile. One that runs takes its device: another one that begins there is refused.
class NativeTrainer {
 public:
  NativeTrainer(const std::shared_ptr<NativeLoader>& loader, const TrainerSettings& settings);

  std::uint64_t position() const { return trainer_->position(); }
  std::uint64_t batches_per_epoch() const { return trainer_->pipeline().batches_per_epoch(); }
  /// The mean loss of the epoch to which the last step belongs; NaN where there is none.
  double epoch_loss() const { return trainer_->epoch_losses().mean(); }
  std::uint64_t digest() const;
  std::string plan() const { return to_json_text(plan_); }
  std::vector<std::string> metrics() const;

  /// Goes to where `resume` says, and begins the run folder. What is in the folder of checkpoints
  /// is refused without `resume`.
  std::optional<LoadedCheckpoint> open(const std::string& resume);
  /// Takes the device for the calling thread and the folder of checkpoints, if one was given, until
  /// end(). Throws Refused where the folder has those of later steps.
  void begin();
  void end();
  /// Throws Refused where there is a run folder, which does not go back.
  LoadedCheckpoint restore(const std::string& path);
  /// Trains up to the step `end`. `on_step`: called with what Progress tells, or None.
  TrainedPart train(std::uint64_t end, const pybind11::object& on_step);
  /// Lets train() end behind the steps in flight. Any thread may call it.
  void stop() { is_stopped_ = true; }
  /// Whether this is the process that made it. Another one, which was forked, is refused.
  bool is_here() const { return made_in_.is_this_process(); }
  bool save(const std::optional<CheckpointScore>& score);
  /// Adds a row to the run folder; the progress line has the score `shown` from here on.
  void log(const ScoreRow& row, const std::string& shown);
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
  AutoResult run(const RunOptions& options);
  TrainingFacts facts(const Progress& progress) const;
  void report_progress(const Progress& progress);

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
  std::unique_ptr<ProgressLine> line_;
  std::string score_;
  std::uint64_t begun_at_ = 0;                   ///< position
  std::set<std::filesystem::path> passed_over_;  ///< damaged checkpoints of later steps
  double seconds_ = 0;                           ///< of the parts before
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
