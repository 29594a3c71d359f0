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
  std::uint64_t steps = 0;     ///< steps of the whole training, including those of earlier runs
  bool ends_epochs = false;    ///< whether FitSteps::end_epoch() is called; `evaluates` implies it
  bool evaluates = false;      ///< whether the model is evaluated after each epoch
  bool saves = false;          ///< whether there is a folder of checkpoints
  std::string criterion = {};  ///< the score that decides which epoch is best: fit_criterion()
  /// The user's option that selects it, for messages: "--keep-best top1".
  std::string criterion_option = {};
  /// The number of epochs without a better score after which the training ends.
  std::optional<std::uint64_t> early_stop = {};
};

/// The scores and the duration of a training so far. It is passed from one Fit to the next one of
/// the same trainer, and starts with the scores of the checkpoint that was resumed.
struct FitHistory {
  FitHistory() = default;
  /// Starts at `position`, to which `loaded` may have brought the trainer. The best score is known
  /// if it is the best `criterion`.
  FitHistory(std::uint64_t position, const std::optional<LoadedCheckpoint>& loaded,
             const std::string& criterion);

  std::uint64_t first_step = 0;      ///< position of the trainer at the start of this history
  double seconds = 0;                ///< duration of the training since then
  std::optional<double> best;        ///< best value of the criterion, finite
  std::optional<double> best_saved;  ///< best value among the epochs whose checkpoint was saved
  std::uint64_t best_step = 0;
  std::uint64_t epochs_since_best = 0;
  std::uint64_t scored_step = 0;         ///< step of the last evaluation; 0: there was none
  std::vector<BestOfScore> best_scores;  ///< best values of all scores
  std::string score;                     ///< the latest criterion, such as "top1 0.761"
  bool is_lost = false;                  ///< whether the last checkpoint could not be saved
};

/// Reported at the end of an epoch, or when the training ends during an epoch.
struct EpochResult {
  ScoreRow row;        ///< without scores if the model is not evaluated
  EpochLosses losses;  ///< losses of the epoch so far
  bool is_best = false;
};

/// The parts of a training that differ between the command line and Python. All functions are
/// called on the thread of Fit::run(), except show(). An exception from any of them ends the
/// training.
class FitSteps {
 public:
  virtual ~FitSteps() = default;
  /// Trains with `options`, to which it adds the condition that stops a run and the saving of
  /// checkpoints during the run.
  virtual RunResult train(RunOptions options) = 0;
  virtual EvaluationResult evaluate() = 0;
  /// Calls Checkpoints::save().
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
  RunResult run;                 ///< all steps; without the digest
  std::vector<ScoreRow> scores;  ///< scores of each evaluation
  std::string ended;             ///< why the training ended before its last step; "" if it did not
  bool is_saved = false;         ///< whether there is a checkpoint of the last step
};

/// The loop over epochs of a training. It trains an epoch, evaluates, compares the score with the
/// best one, saves and writes the run folder. It ends early if the score does not improve.
class Fit {
 public:
  /// `log` is the run folder, or nullptr. All arguments except `options` must outlive this object.
  Fit(Trainer& trainer, FitOptions options, FitHistory& history, FitSteps& steps, RunLogging* log);

  /// Trains up to the last step and saves. After an exception, saves the steps that were trained
  /// before it, and rethrows it. May be called once.
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

/// Returns the score that decides which epoch is best: `chosen` or, without it, the first metric of
/// the pipeline, or the loss if there is none. Throws Refused if no score has that name. `option`
/// is the name of the user's option in the message.
std::string fit_criterion(const Pipeline& pipeline, const std::optional<std::string>& chosen,
                          const std::string& option);

/// Returns the number of epochs in `steps` steps.
double epochs_in(std::uint64_t steps, const Pipeline& pipeline);

/// Returns the epoch, the score and the learning rate that the progress line shows. `steps` is the
/// number of steps of the whole training.
TrainingFacts training_facts(const Pipeline& pipeline, std::uint64_t steps,
                             const FitHistory& history, const Progress& progress);

}  // namespace slipstream
