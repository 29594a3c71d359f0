#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "report/progress_line.h"
#include "report/report.h"
#include "slipstream/engine/checkpoint.h"
#include "slipstream/engine/evaluation.h"
#include "slipstream/engine/trainer.h"
#include "training/run_logging.h"

namespace slipstream {

/// Options of a training.
struct FitOptions {
  std::uint64_t steps = 0;     ///< of the whole training, including the steps of earlier runs
  bool ends_epochs = false;    ///< whether FitSteps::end_epoch() is called; `evaluates` implies it
  bool evaluates = false;      ///< whether the model is evaluated after each epoch
  bool saves = false;          ///< whether there is a folder of checkpoints
  std::string criterion = {};  ///< the score that decides which epoch is best: fit_criterion()
  std::string criterion_option = {};  ///< how it is chosen, for messages: "--keep-best top1"
  /// Epochs without a better score that end the training.
  std::optional<std::uint64_t> early_stop = {};
};

/// The scores and the time of a training so far. It is passed from one Fit to the next one of the
/// same trainer, and begins with the scores of the checkpoint that was resumed.
struct FitHistory {
  FitHistory() = default;
  /// Starts at `position`, to which `loaded` may have brought the trainer. The best score is known
  /// if it is the best `criterion`.
  FitHistory(std::uint64_t position, const std::optional<LoadedCheckpoint>& loaded,
             const std::string& criterion);

  std::uint64_t first_step = 0;      ///< position of the trainer at the beginning of this history
  double seconds = 0;                ///< how long was trained since then
  std::optional<double> best;        ///< best value of the criterion, finite
  std::optional<double> best_saved;  ///< the same of epochs whose checkpoint could be saved
  std::uint64_t best_step = 0;
  std::uint64_t epochs_since_best = 0;
  std::uint64_t scored_step = 0;         ///< of the last evaluation; 0: there was none
  std::vector<BestOfScore> best_scores;  ///< of all scores
  std::string score;                     ///< the latest criterion, such as "top1 0.761"
  bool is_lost = false;                  ///< whether the last checkpoint could not be saved
};

/// The end of an epoch, or of the training within an epoch.
struct EpochResult {
  ScoreRow row;        ///< without scores where the model is not evaluated
  EpochLosses losses;  ///< of the steps of the epoch so far
  bool is_best = false;
};

/// The steps of a training that the command line and Python do differently. All are called on the
/// thread of Fit::run(), except show(). An exception from any of them ends the training.
class FitSteps {
 public:
  virtual ~FitSteps() = default;
  /// Trains with `options`, adds what stops a run, and lets checkpoints be saved during the run.
  virtual RunResult train(RunOptions options) = 0;
  virtual EvaluationResult evaluate() = 0;
  /// Checkpoints::save()
  virtual bool save(const std::optional<CheckpointScore>& score) = 0;
  /// Reports Checkpoints::problem(), if there is any.
  virtual void report_problem() = 0;
  /// Shows the progress of the whole training since FitHistory::first_step. Called on the thread of
  /// RunOptions::progress.
  virtual void show(const Progress& progress) = 0;
  /// Called after each epoch and its evaluation.
  virtual void end_epoch(const EpochResult& epoch) = 0;
};

/// Result of one Fit.
struct FitResult {
  RunResult run;                 ///< all its steps; without the digest
  std::vector<ScoreRow> scores;  ///< of each evaluation
  std::string ended;             ///< why it ended before its last step; "": it did not
  bool is_saved = false;         ///< whether there is a checkpoint of the last step
};

/// The loop over epochs of a training: it trains an epoch, evaluates, compares the score with the
/// best one, saves, writes the run folder, and ends early where nothing gets better.
class Fit {
 public:
  /// `log`: the run folder, or nullptr. All but `options` must outlive this.
  Fit(Trainer& trainer, FitOptions options, FitHistory& history, FitSteps& steps, RunLogging* log);

  /// Trains up to the last step, and saves. After an exception saves the steps before it, and
  /// rethrows it. Called once.
  FitResult run();

 private:
  void train_parts();
  std::uint64_t end_of_part() const;
  void train_part();
  void end_epoch();
  bool judge(const ScoreRow& row);
  void update_best_value(const std::string& name, double value, std::uint64_t step);
  bool save(const std::optional<CheckpointScore>& score);
  void end_early_where_due();

  Trainer& trainer_;
  FitOptions options_;
  FitHistory& history_;
  FitSteps& steps_;
  RunLogging* log_;
  std::uint64_t begun_at_;              ///< position
  std::optional<std::uint64_t> saved_;  ///< position of the last checkpoint between two parts
  FitResult result_;
};

/// The score that decides which epoch is best: `chosen`, or, without it, the first metric of the
/// pipeline or the loss. Throws Refused for a name of no score. `option`: the name of the
/// user's option, for the message.
std::string fit_criterion(const Pipeline& pipeline, const std::optional<std::string>& chosen,
                          const std::string& option);

/// The number of epochs in `steps` steps.
double epochs_in(std::uint64_t steps, const Pipeline& pipeline);

/// Returns the epoch, the score and the learning rate that the progress line shows. `steps`: of the
/// whole training.
TrainingFacts training_facts(const Pipeline& pipeline, std::uint64_t steps,
                             const FitHistory& history, const Progress& progress);

}  // namespace slipstream
