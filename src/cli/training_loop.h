#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "cli/verbs.h"
#include "report/progress_line.h"
#include "report/report.h"
#include "slipstream/engine/checkpoint.h"
#include "slipstream/engine/evaluation.h"
#include "training/run_logging.h"

namespace CLI {
class App;
}

namespace slipstream {

/// The options --log-dir and --log-every.
struct LogFlags : RunLogOptions {
  /// This must outlive the parser.
  void add_to(CLI::App& verb);
};

/// The options of evaluation between epochs.
struct ValidationFlags {
  std::string val, keep_best;
  std::optional<std::uint64_t> early_stop;

  /// This must outlive the parser.
  void add_to(CLI::App& verb);
  /// Throws Refused for options that have no effect without another.
  void check() const;
};

/// A model's scores on other data than those it is trained on.
struct Validation {
  std::unique_ptr<Evaluator> evaluator;
  Plan plan;
};

/// A training in parts: it is evaluated, saved and perhaps ended between two epochs.
class TrainingLoop {
 public:
  struct Setup {
    Trainer& trainer;
    ProgressLine& line;
    std::uint64_t steps = 0;             ///< of the whole training, with those of earlier runs
    Validation* validation = nullptr;    ///< nullptr: it is one part
    Checkpoints* checkpoints = nullptr;  ///< nullptr: nothing is saved
    RunLogging* log = nullptr;           ///< nullptr: there is no run folder
    ValidationFlags flags = {};
    std::optional<LoadedCheckpoint> loaded = std::nullopt;  ///< where an earlier run ended
    /// Trains the first part, and finds out which plan the others have.
    std::function<AutoResult(const RunOptions&)> train;
  };
  /// Throws Refused where --keep-best names no score.
  explicit TrainingLoop(Setup setup);

  /// Steps, progress and stop of `options` are of the whole training.
  AutoResult run(const RunOptions& options);
  /// Whether the last checkpoint could not be saved.
  bool is_lost() const { return is_lost_; }
  /// For the progress line.
  TrainingFacts facts(const Progress& progress) const;
  /// After each evaluation.
  const std::vector<ScoreRow>& scores() const { return rows_; }
  /// The best value of each score with those of earlier runs, a row for each.
  std::vector<ScoreRow> best_scores() const;
  /// Why it ended before its last step; "": it did not.
  const std::string& ended() const { return ended_; }

 private:
  AutoResult run_parts(RunOptions options);
  std::uint64_t end_of_part() const;
  void train_part(const RunOptions& options);
  void evaluate(const RunOptions& options);
  void judge(const EvaluationResult& result);
  void update_best(const std::string& name, double value, std::uint64_t step);
  double epochs_at(std::uint64_t step) const;
  void print_epoch(const std::string& note) const;
  /// False where it could not be saved.
  bool save(const std::optional<CheckpointScore>& score);
  void report_problem();
  void end_early_where_due();

  Setup setup_;
  std::uint64_t begun_at_;  ///< position, of which nothing is to be saved
  std::string criterion_;   ///< the score that decides what is best
  AutoResult total_;
  bool has_begun_ = false;
  std::vector<ScoreRow> rows_;
  std::optional<double> best_;  ///< finite
  std::uint64_t best_step_ = 0;
  std::optional<double> best_saved_;
  std::vector<BestOfScore> best_scores_;
  bool is_lost_ = false;
  std::optional<std::uint64_t> saved_;  ///< position of the last checkpoint between parts
  std::uint64_t epochs_since_best_ = 0;
  std::string ended_;
};

}  // namespace slipstream
