#include "training/fit.h"

#include <algorithm>
#include <cmath>

#include "core/number_text.h"
#include "core/text.h"
#include "engine/continued.h"
#include "report/evaluation_report.h"

namespace slipstream {
namespace {

constexpr int kDigits = 4;

/// Returns the score of that name; nullptr if there is none.
const double* find_score(const ScoreRow& row, const std::string& name) {
  for (const auto& [other, value] : row.scores)
    if (other == name) return &value;
  return nullptr;
}

/// Returns the error message if the evaluation did not compute the score that selects the best
/// checkpoint.
std::string missing_score(const ScoreRow& row) {
  std::vector<std::string> names;
  for (const auto& [name, value] : row.scores) names.push_back(name);
  return "the evaluation does not compute this score; it computes " +
         (names.empty() ? "none: add a metric" : joined(names) + ": choose one of them");
}

bool is_better(const std::string& name, double value, const std::optional<double>& than) {
  return std::isfinite(value) && (!than || is_better_score(name, value, *than));
}

/// Adds a part to the result. A part with few steps has no rate to report, so the rate of the
/// earlier parts is kept.
void add_part(RunResult& total, RunResult part) {
  const Measured before = total.steps_per_second;
  continue_with(total, std::move(part));
  if (reportable_rate(total.steps_per_second).n == 0 && reportable_rate(before).n > 0)
    total.steps_per_second = before;
}

}  // namespace

FitHistory::FitHistory(std::uint64_t position, const std::optional<LoadedCheckpoint>& loaded,
                       const std::string& criterion)
    : first_step(position) {
  if (!loaded) return;
  scored_step = loaded->scored_step;
  best_scores = loaded->best_scores;
  if (!loaded->best || loaded->best->metric != criterion) return;
  best = best_saved = loaded->best->value;
  best_step = loaded->best_step;
  epochs_since_best = loaded->best->epochs_since_best;
}

Fit::Fit(Trainer& trainer, FitOptions options, FitHistory& history, FitSteps& steps,
         RunLogging* log)
    : trainer_(trainer),
      options_(std::move(options)),
      history_(history),
      steps_(steps),
      log_(log),
      begun_at_(trainer.position()) {
  options_.ends_epochs = options_.ends_epochs || options_.evaluates;
  result_.run.first_step = begun_at_;
}

FitResult Fit::run() {
  try {
    train_parts();
    save(std::nullopt);
  } catch (const std::exception&) {
    try {
      if (trainer_.position() != begun_at_) save(std::nullopt);
    } catch (const std::exception&) {
      // An error while saving must not hide the error that ended the training. If the weights are
      // not those after a complete step, save() throws and no checkpoint is written.
    }
    throw;
  }
  result_.is_saved = options_.saves && !history_.is_lost;
  return std::move(result_);
}

void Fit::train_parts() {
  // An earlier run may have ended after the last step of an epoch and before its evaluation, which
  // is then made now.
  const bool is_epochs_end = begun_at_ % trainer_.pipeline().batches_per_epoch() == 0;
  if (options_.evaluates && begun_at_ > 0 && is_epochs_end && history_.scored_step != begun_at_)
    end_epoch();
  end_early_where_due();
  while (trainer_.position() < options_.steps && result_.ended.empty()) {
    train_part();
    if (result_.run.interrupted) return;
    if (options_.ends_epochs) end_epoch();
    end_early_where_due();
  }
}

std::uint64_t Fit::end_of_part() const {
  if (!options_.ends_epochs) return options_.steps;
  const std::uint64_t epoch = trainer_.pipeline().batches_per_epoch();
  return std::min(options_.steps, (trainer_.position() / epoch + 1) * epoch);
}

void Fit::train_part() {
  const std::uint64_t done = trainer_.position() - history_.first_step;
  const double before_s = history_.seconds;
  RunOptions part;
  part.steps = end_of_part() - trainer_.position();
  part.digest = false;
  part.progress = [&, steps = part.steps](Progress progress) {
    progress.step += done;
    progress.steps = options_.steps - history_.first_step;
    progress.elapsed_s += before_s;
    progress.part_began_s += before_s;
    progress.part_ends = done + (progress.part_ends > 0 ? progress.part_ends : steps);
    history_.seconds = progress.elapsed_s;  // kept up to date in case the run throws
    if (log_ != nullptr) log_->update(progress);
    steps_.show(progress);
  };
  RunResult run = steps_.train(std::move(part));
  history_.seconds = before_s + run.wall_s;
  const bool is_first = result_.run.steps == 0;
  is_first ? std::swap(result_.run, run) : add_part(result_.run, std::move(run));
  steps_.report_problem();
}

void Fit::end_epoch() {
  const std::uint64_t step = trainer_.position();
  EpochResult epoch{.row = {step, epochs_in(step, trainer_.pipeline()), {}},
                    .losses = trainer_.epoch_losses()};
  if (options_.evaluates) {
    EvaluationResult found = steps_.evaluate();
    if (found.interrupted) {
      result_.run.interrupted = true;
      result_.ended = "interrupted during the evaluation";
      return;
    }
    epoch.row.scores = std::move(found.scores);
    result_.scores.push_back(epoch.row);
    epoch.is_best = judge(epoch.row);
    if (log_ != nullptr) log_->add(epoch.row);
  }
  steps_.end_epoch(epoch);
}

bool Fit::judge(const ScoreRow& row) {
  const std::string& name = options_.criterion;
  const double* found = find_score(row, name);
  if (found == nullptr) throw Error(options_.criterion_option + ": " + missing_score(row));
  const double value = *found;
  for (const auto& [other, score] : row.scores) update_best_value(other, score, row.step);
  history_.score = name + " " + rounded_text(value, kDigits);
  history_.scored_step = row.step;
  const bool is_best = is_better(name, value, history_.best);
  history_.epochs_since_best = is_best ? 0 : history_.epochs_since_best + 1;
  if (is_best) {
    history_.best = value;
    history_.best_step = row.step;
  }
  // The best saved score is kept apart from the best score. If the checkpoint of the best epoch
  // could not be saved, a later epoch that is better than the best saved one replaces it.
  const bool saves_best = is_better(name, value, history_.best_saved);
  if (save(CheckpointScore{name, value, saves_best, history_.epochs_since_best,
                           history_.best_scores}) &&
      saves_best)
    history_.best_saved = value;
  return is_best;
}

void Fit::update_best_value(const std::string& name, double value, std::uint64_t step) {
  std::vector<BestOfScore>& all = history_.best_scores;
  const auto found = std::find_if(all.begin(), all.end(),
                                  [&](const BestOfScore& best) { return best.metric == name; });
  if (found == all.end()) {
    if (std::isfinite(value)) all.push_back({name, value, step});
  } else if (is_better(name, value, found->value)) {
    *found = {name, value, step};
  }
}

bool Fit::save(const std::optional<CheckpointScore>& score) {
  if (!options_.saves) return false;
  const std::uint64_t position = trainer_.position();
  const bool is_there = saved_ == position || (position == begun_at_ && !history_.is_lost);
  if (is_there && !score) return true;
  history_.is_lost = true;  // in case save() throws
  history_.is_lost = !steps_.save(score);
  if (!history_.is_lost) saved_ = position;
  steps_.report_problem();
  return !history_.is_lost;
}

void Fit::end_early_where_due() {
  if (!result_.ended.empty() || !options_.early_stop ||
      history_.epochs_since_best < *options_.early_stop)
    return;
  result_.ended = "ended early: " + options_.criterion + " has not improved for " +
                  format_count(history_.epochs_since_best, "epoch");
  if (history_.best)
    result_.ended += " (best: " + rounded_text(*history_.best, kDigits) + " at step " +
                     std::to_string(history_.best_step) + ")";
}

std::string fit_criterion(const Pipeline& pipeline, const std::optional<std::string>& chosen,
                          const std::string& option) {
  std::vector<std::string> names = {"loss", "accuracy"};
  for (const Metric& metric : pipeline.metrics()) names.push_back(metric.name);
  if (!chosen) return pipeline.metrics().empty() ? "loss" : pipeline.metrics().front().name;
  if (std::find(names.begin(), names.end(), *chosen) == names.end())
    throw Refused(option + ": " + unknown_name("score", *chosen, names));
  return *chosen;
}

double epochs_in(std::uint64_t steps, const Pipeline& pipeline) {
  return static_cast<double>(steps) / static_cast<double>(pipeline.batches_per_epoch());
}

TrainingFacts training_facts(const Pipeline& pipeline, std::uint64_t steps,
                             const FitHistory& history, const Progress& progress) {
  const std::uint64_t epoch = pipeline.batches_per_epoch();
  const std::uint64_t last = std::max<std::uint64_t>(1, history.first_step + progress.step) - 1;
  return {
      .epoch = std::to_string(last / epoch + 1) + "/" + std::to_string((steps + epoch - 1) / epoch),
      .score = history.score,
      .lr = pipeline.train_step()->lr(last)};
}

}  // namespace slipstream
