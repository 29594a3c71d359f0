#include "cli/training_loop.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <iostream>

#include "cli/verbs.h"
#include "core/number_text.h"
#include "engine/continued.h"
#include "report/evaluation_report.h"

namespace slipstream {
namespace {

constexpr int kDigits = 4;

/// Names of scores that an evaluation may give.
std::vector<std::string> score_names(const Pipeline& pipeline) {
  std::vector<std::string> names = {"loss", "accuracy"};
  for (const Metric& metric : pipeline.metrics()) names.push_back(metric.name);
  return names;
}

}  // namespace

void LogFlags::add_to(CLI::App& verb) {
  verb.add_option("--log-dir", dir,
                  "Folder for the run: scores as CSV, JSON lines, TensorBoard events and plots, "
                  "and everything that is needed to repeat the run")
      ->group(kOutputGroup);
  verb.add_option("--log-every", every, "Steps between two rows of --log-dir")
      ->check(at_least(1))
      ->capture_default_str()
      ->group(kOutputGroup);
}

void ValidationFlags::add_to(CLI::App& verb) {
  verb.add_option(
          "--val", val,
          "Validation data, in the form of --data; the model is evaluated on it after each epoch")
      ->group(kDataGroup);
  verb.add_option("--keep-best", keep_best,
                  "Score of --val that decides which checkpoint is the best: loss, accuracy, or "
                  "one of the workload's (default: the workload's first)")
      ->group(kCheckpointGroup);
  verb.add_option("--early-stop", early_stop,
                  "Stops when the score of --keep-best has not improved for this many epochs")
      ->check(at_least(1))
      ->group(kTrainingGroup);
}

void ValidationFlags::check() const {
  std::vector<std::string> problems;
  if (val.empty() && !keep_best.empty()) problems.emplace_back("--keep-best needs --val DATA");
  if (val.empty() && early_stop) problems.emplace_back("--early-stop needs --val DATA");
  refuse(problems);
}

TrainingLoop::TrainingLoop(Setup setup)
    : setup_(std::move(setup)), begun_at_(setup_.trainer.position()) {
  if (setup_.validation == nullptr) return;
  const Pipeline& pipeline = setup_.trainer.pipeline();
  const std::vector<std::string> names = score_names(pipeline);
  criterion_ = setup_.flags.keep_best;
  if (criterion_.empty())
    criterion_ = pipeline.metrics().empty() ? "loss" : pipeline.metrics().front().name;
  if (std::find(names.begin(), names.end(), criterion_) == names.end())
    throw Refused("--keep-best: " + unknown_name("score", criterion_, names));
  const auto& loaded = setup_.loaded;
  if (loaded) best_scores_ = loaded->best_scores;
  if (!loaded || !loaded->best || loaded->best->metric != criterion_) return;
  best_ = best_saved_ = loaded->best->value;
  best_step_ = loaded->best_step;
  epochs_since_best_ = loaded->best->epochs_since_best;
}

std::uint64_t TrainingLoop::end_of_part() const {
  if (setup_.validation == nullptr) return setup_.steps;
  const std::uint64_t epoch = setup_.trainer.pipeline().batches_per_epoch();
  return std::min(setup_.steps, (setup_.trainer.position() / epoch + 1) * epoch);
}

void TrainingLoop::train_part(const RunOptions& options) {
  RunOptions part = options;
  const RunResult& before = total_.run;
  part.steps = end_of_part() - setup_.trainer.position();
  if (setup_.checkpoints != nullptr) setup_.checkpoints->save_during(part);
  if (options.progress)
    part.progress = [&, done = before.steps, wall = before.wall_s,
                     steps = part.steps](Progress progress) {
      progress.step += done;
      progress.steps = options.steps;
      progress.elapsed_s += wall;
      progress.part_began_s += wall;
      progress.part_ends = done + (progress.part_ends > 0 ? progress.part_ends : steps);
      options.progress(progress);
      report_problem();
    };
  if (!has_begun_) {
    total_ = setup_.train(part);
  } else {
    continue_with(total_.run, setup_.trainer.run(before.plan, part));
  }
  has_begun_ = true;
  if (setup_.checkpoints != nullptr) setup_.checkpoints->set_plan(to_json_text(total_.run.plan));
}

TrainingFacts TrainingLoop::facts(const Progress& progress) const {
  const Pipeline& pipeline = setup_.trainer.pipeline();
  const std::uint64_t epoch = pipeline.batches_per_epoch();
  const std::uint64_t done = std::max<std::uint64_t>(1, begun_at_ + progress.step);
  TrainingFacts facts;
  facts.epoch = std::to_string((done - 1) / epoch + 1) + "/" +
                std::to_string(std::max<std::uint64_t>(1, (setup_.steps + epoch - 1) / epoch));
  facts.lr = pipeline.train_step()->lr(done - 1);
  if (rows_.empty()) return facts;
  for (const auto& [name, value] : rows_.back().scores)
    if (name == criterion_) facts.score = name + " " + rounded_text(value, kDigits);
  return facts;
}

AutoResult TrainingLoop::run(const RunOptions& options) {
  try {
    AutoResult result = run_parts(options);
    save(std::nullopt);
    return result;
  } catch (const std::exception&) {
    save(std::nullopt);  // what was trained before; it is refused where that is no step's
    throw;
  }
}

AutoResult TrainingLoop::run_parts(RunOptions options) {
  const bool digest = std::exchange(options.digest, false);
  const std::uint64_t position = begun_at_;
  options.steps = setup_.steps - position;
  total_.run.first_step = position;
  if (setup_.validation != nullptr) {
    // An earlier run may have ended between the last step of an epoch and its score.
    const bool ends_epoch = position % setup_.trainer.pipeline().batches_per_epoch() == 0;
    if (position > 0 && ends_epoch && setup_.loaded && setup_.loaded->scored_step != position)
      evaluate(options);
    end_early_where_due();
  }
  while (setup_.trainer.position() < setup_.steps && ended_.empty()) {
    train_part(options);
    report_problem();
    if (total_.run.interrupted) break;
    if (setup_.validation != nullptr) evaluate(options);
    end_early_where_due();
  }
  if (digest) total_.run.digest = setup_.trainer.digest();
  return std::move(total_);
}

void TrainingLoop::evaluate(const RunOptions& options) {
  RunOptions run;
  run.stop = options.stop;
  const EvaluationResult result = setup_.validation->evaluator->run(setup_.validation->plan, run);
  if (result.interrupted) {
    total_.run.interrupted = true;
    ended_ = "interrupted while it was evaluated";
    return;
  }
  judge(result);
}

void TrainingLoop::judge(const EvaluationResult& result) {
  const Trainer& trainer = setup_.trainer;
  const std::uint64_t step = trainer.position();
  rows_.push_back({step, epochs_at(step), result.scores});
  for (const auto& [name, score] : result.scores) update_best(name, score, step);
  const auto found = std::find_if(result.scores.begin(), result.scores.end(),
                                  [&](const auto& score) { return score.first == criterion_; });
  if (found == result.scores.end())
    throw Error("--keep-best " + criterion_ + ": this loss does not give it");
  const double value = found->second;
  const bool is_best =
      std::isfinite(value) && (!best_ || is_better_score(criterion_, value, *best_));
  epochs_since_best_ = is_best ? 0 : epochs_since_best_ + 1;
  if (is_best) {
    best_ = value;
    best_step_ = step;
  }
  // One that could not be saved leaves the place to the next that is better than what was.
  const bool saves_best =
      std::isfinite(value) && (!best_saved_ || is_better_score(criterion_, value, *best_saved_));
  if (save(CheckpointScore{criterion_, value, saves_best, epochs_since_best_, best_scores_}) &&
      saves_best)
    best_saved_ = value;
  if (setup_.log != nullptr) setup_.log->add(rows_.back());
  print_epoch(is_best ? "  best" : "");
}

void TrainingLoop::update_best(const std::string& name, double value, std::uint64_t step) {
  if (!std::isfinite(value)) return;
  const auto found = std::find_if(best_scores_.begin(), best_scores_.end(),
                                  [&](const BestOfScore& best) { return best.metric == name; });
  if (found == best_scores_.end())
    best_scores_.push_back({name, value, step});
  else if (is_better_score(name, value, found->value))
    *found = {name, value, step};
}

double TrainingLoop::epochs_at(std::uint64_t step) const {
  return static_cast<double>(step) /
         static_cast<double>(setup_.trainer.pipeline().batches_per_epoch());
}

std::vector<ScoreRow> TrainingLoop::best_scores() const {
  std::vector<ScoreRow> rows;
  for (const BestOfScore& best : best_scores_)
    rows.push_back({best.step, epochs_at(best.step), {{best.metric, best.value}}});
  return rows;
}

void TrainingLoop::end_early_where_due() {
  if (!ended_.empty() || !setup_.flags.early_stop || setup_.validation == nullptr ||
      epochs_since_best_ < *setup_.flags.early_stop)
    return;
  ended_ = "ended early: " + criterion_ + " has not improved for " +
           format_count(epochs_since_best_, "epoch");
  if (best_)
    ended_ +=
        " (best: " + rounded_text(*best_, kDigits) + " at step " + std::to_string(best_step_) + ")";
}

void TrainingLoop::print_epoch(const std::string& note) const {
  const ScoreRow& row = rows_.back();
  const EpochLosses losses = setup_.trainer.epoch_losses();
  setup_.line.clear();
  std::cout << "epoch " << rounded_text(row.epoch, kDigits) << ", step " << row.step << ": ";
  // A checkpoint of an earlier version at the end of an epoch does not have its losses.
  if (losses.steps > 0) std::cout << "loss " << rounded_text(losses.mean(), kDigits) << "; ";
  std::cout << "val";
  for (const auto& [name, value] : row.scores)
    std::cout << " " << name << " " << rounded_text(value, kDigits);
  if (const auto lr = setup_.trainer.pipeline().train_step()->lr(row.step - 1))
    std::cout << "; lr " << rounded_text(*lr, kDigits);
  std::cout << note << std::endl;
}

bool TrainingLoop::save(const std::optional<CheckpointScore>& score) {
  if (setup_.checkpoints == nullptr) return false;
  const std::uint64_t position = setup_.trainer.position();
  if (saved_ == position || (position == begun_at_ && !score)) return true;
  is_lost_ = !setup_.checkpoints->save(score);
  if (!is_lost_) saved_ = position;
  report_problem();
  return !is_lost_;
}

void TrainingLoop::report_problem() {
  if (setup_.checkpoints == nullptr) return;
  const std::string problem = setup_.checkpoints->problem();
  if (problem.empty()) return;
  setup_.line.print("warning: could not save " + problem);
}

}  // namespace slipstream
