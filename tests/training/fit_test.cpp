#include "training/fit.h"

#include <gmock/gmock.h>
#include <torch/nn/modules/conv.h>

#include <deque>
#include <limits>

#include "support/thrown.h"

namespace slipstream {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr std::uint64_t kEpoch = 4;  // steps
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

struct SegmenterImpl : torch::nn::Module {
  at::Tensor forward(const at::Tensor& images) { return conv->forward(images.to(at::kFloat)); }

  torch::nn::Conv2d conv = register_module("conv", torch::nn::Conv2d(3, 5, 1));
};
TORCH_MODULE(Segmenter);

Pipeline make_pipeline() {
  SyntheticOptions synthetic;
  synthetic.samples = 2 * kEpoch;
  synthetic.size = 8;
  synthetic.classes = 5;
  return pipeline(synthetic_segmentation(synthetic), {.batch_size = 2})
      .train("train", Segmenter(), sgd({.lr = 1e-4}), cross_entropy("image", "label"));
}

/// Trains with a real trainer, but tests set scores and failures.
class FakeSteps final : public FitSteps {
 public:
  explicit FakeSteps(Trainer& trainer)
      : trainer_(trainer),
        plan_(placed_plan(trainer.pipeline(), "serial", "cpu", DeviceKind::cpu,
                          {{.num_workers = 1}}, trainer.numerics())) {}

  RunResult train(RunOptions options) override {
    fail_where_asked();
    if (stops_at) options.steps = *stops_at - trainer_.position();
    RunResult result = trainer_.run(plan_, options);
    result.interrupted = stops_at.has_value();
    result.steps_per_second = rates.empty() ? Measured{} : take(rates);
    fail_where_asked();
    return result;
  }
  EvaluationResult evaluate() override {
    EvaluationResult result;
    result.interrupted = scores.empty();
    if (!scores.empty()) result.scores = {{"top1", take(scores)}};
    return result;
  }
  bool save(const std::optional<CheckpointScore>& score) override {
    saved.push_back({trainer_.position(), score});
    if (throws_in_save) throw Error("the disk failed");
    return trainer_.position() != unsaved;
  }
  void report_problem() override { ++reports; }
  void show(const Progress& progress) override { shown.push_back(progress); }
  void end_epoch(const EpochResult& epoch) override { epochs.push_back(epoch); }

  std::vector<std::uint64_t> best_steps() const {
    std::vector<std::uint64_t> steps;
    for (const EpochResult& epoch : epochs)
      if (epoch.is_best) steps.push_back(epoch.row.step);
    return steps;
  }
  std::vector<std::uint64_t> epoch_ends() const {
    std::vector<std::uint64_t> steps;
    for (const EpochResult& epoch : epochs) steps.push_back(epoch.row.step);
    return steps;
  }
  std::vector<std::uint64_t> saved_steps() const {
    std::vector<std::uint64_t> steps;
    for (const auto& [step, score] : saved) steps.push_back(step);
    return steps;
  }

  std::deque<double> scores;
  std::deque<Measured> rates;
  std::optional<std::uint64_t> stops_at, fails_at, unsaved;  ///< positions
  bool throws_in_save = false;
  std::vector<std::pair<std::uint64_t, std::optional<CheckpointScore>>> saved;
  std::vector<Progress> shown;
  std::vector<EpochResult> epochs;
  int reports = 0;

 private:
  void fail_where_asked() const {
    if (trainer_.position() == fails_at) throw Error("the step failed");
  }
  template <typename T>
  static T take(std::deque<T>& left) {
    T first = std::move(left.front());
    left.pop_front();
    return first;
  }

  Trainer& trainer_;
  Plan plan_;
};

class FitTest : public testing::Test {
 protected:
  FitTest()
      : trainer_(make_pipeline(), context_,
                 make_plan("serial", {"copy", "train"}, DeviceKind::cpu, {{.num_workers = 1}}, {})
                     .numerics),
        steps_(trainer_) {}

  FitResult fit(std::uint64_t steps) {
    options_.steps = steps;
    return Fit(trainer_, options_, history_, steps_, nullptr).run();
  }

  Context context_{"cpu"};
  Trainer trainer_;
  FakeSteps steps_;
  FitHistory history_;
  FitOptions options_{.evaluates = true,
                      .saves = true,
                      .criterion = "top1",
                      .criterion_option = "--keep-best top1"};
};

TEST_F(FitTest, EpochsAreEvaluatedComparedAndSavedIncludingOneThatIsCutShort) {
  steps_.scores = {0.5, 0.75, 0.625};
  const FitResult result = fit(2 * kEpoch + 1);
  EXPECT_EQ(result.run.steps, 2 * kEpoch + 1);
  EXPECT_EQ(result.run.losses.size(), 2 * kEpoch + 1);
  EXPECT_TRUE(result.is_saved);
  EXPECT_THAT(result.ended, IsEmpty());
  EXPECT_THAT(steps_.epoch_ends(), ElementsAre(4, 8, 9));
  EXPECT_THAT(steps_.best_steps(), ElementsAre(4, 8));
  EXPECT_THAT(steps_.saved_steps(), ElementsAre(4, 8, 9));
  EXPECT_EQ(steps_.epochs.back().row.epoch, 2.25);
  EXPECT_EQ(steps_.epochs.back().losses.steps, 1);
  const CheckpointScore& last = *steps_.saved.back().second;
  EXPECT_FALSE(last.is_best);
  EXPECT_EQ(last.epochs_since_best, 1);
  EXPECT_EQ(last.best_scores.at(0).step, 8);
  EXPECT_EQ(history_.score, "top1 0.625");
  EXPECT_EQ(steps_.reports, 6);  // after each part and after each checkpoint
}

TEST_F(FitTest, WithoutEvaluationItIsOnePartUnlessEpochsAreAskedFor) {
  options_.evaluates = false;
  fit(kEpoch + 1);
  EXPECT_THAT(steps_.epochs, IsEmpty());
  EXPECT_THAT(steps_.saved_steps(), ElementsAre(5));
  options_.ends_epochs = true;
  fit(3 * kEpoch);
  EXPECT_THAT(steps_.epoch_ends(), ElementsAre(8, 12));
  EXPECT_THAT(steps_.saved_steps(), ElementsAre(5, 12));
}

TEST_F(FitTest, ProgressIsThatOfTheWholeTrainingOverSeveralFits) {
  steps_.scores = {0.5, 0.5, 0.5};
  fit(2 * kEpoch);
  fit(3 * kEpoch);
  ASSERT_EQ(steps_.shown.size(), 3 * kEpoch);
  double elapsed_s = 0;
  for (std::uint64_t i = 0; i < 3 * kEpoch; ++i) {
    const Progress& shown = steps_.shown[i];
    EXPECT_EQ(shown.step, i + 1);
    EXPECT_EQ(shown.steps, i < 2 * kEpoch ? 2 * kEpoch : 3 * kEpoch);
    EXPECT_EQ(shown.part_ends, (i / kEpoch + 1) * kEpoch);
    EXPECT_GE(shown.elapsed_s, elapsed_s);
    EXPECT_LE(shown.part_began_s, shown.elapsed_s);
    elapsed_s = shown.elapsed_s;
  }
}

TEST_F(FitTest, EarlyStopCountsEpochsSinceTheBestOneAndThoseOfACheckpoint) {
  options_.early_stop = 3;
  LoadedCheckpoint loaded;
  loaded.best = CheckpointScore{"top1", 0.75, true, 1};
  loaded.best_step = 2;
  history_ = {0, loaded, "top1"};
  steps_.scores = {0.5, 0.25, 0.875};
  EXPECT_EQ(fit(9 * kEpoch).ended,
            "ended early: top1 has not improved for 3 epochs (best: 0.75 at step 2)");
  EXPECT_EQ(trainer_.position(), 2 * kEpoch);
  EXPECT_EQ(fit(9 * kEpoch).run.steps, 0);
}

TEST_F(FitTest, ABestScoreOfAnotherCriterionDoesNotCount) {
  LoadedCheckpoint loaded;
  loaded.best = CheckpointScore{"loss", 0.75, true, 1};
  EXPECT_FALSE(FitHistory(0, loaded, "top1").best);
}

TEST_F(FitTest, ScoresThatAreNotFiniteAreNeverTheBest) {
  options_.early_stop = 1;
  steps_.scores = {kNan};
  EXPECT_EQ(fit(2 * kEpoch).ended, "ended early: top1 has not improved for 1 epoch");
  EXPECT_THAT(history_.best_scores, IsEmpty());
  EXPECT_FALSE(steps_.saved.back().second->is_best);
}

TEST_F(FitTest, AnEpochWhoseCheckpointIsLostLeavesItsPlaceToTheNextBetterOne) {
  steps_.scores = {0.5, 0.75, 0.625};
  steps_.unsaved = 2 * kEpoch;
  EXPECT_TRUE(fit(3 * kEpoch).is_saved);
  EXPECT_THAT(steps_.best_steps(), ElementsAre(4, 8));
  EXPECT_TRUE(steps_.saved.back().second->is_best);
}

TEST_F(FitTest, TheNextFitSavesWhatCouldNotBeSaved) {
  options_.evaluates = false;
  steps_.unsaved = kEpoch;
  EXPECT_FALSE(fit(kEpoch).is_saved);
  EXPECT_FALSE(fit(kEpoch).is_saved);
  steps_.unsaved.reset();
  EXPECT_TRUE(fit(kEpoch).is_saved);
  EXPECT_TRUE(fit(kEpoch).is_saved);
  EXPECT_THAT(steps_.saved_steps(), ElementsAre(4, 4, 4));
}

TEST_F(FitTest, AnInterruptedRunIsSavedAndNotEvaluated) {
  steps_.stops_at = 2;
  const FitResult result = fit(9 * kEpoch);
  EXPECT_TRUE(result.run.interrupted);
  EXPECT_THAT(result.ended, IsEmpty());
  EXPECT_THAT(steps_.epochs, IsEmpty());
  EXPECT_THAT(steps_.saved_steps(), ElementsAre(2));
}

TEST_F(FitTest, AnInterruptedEvaluationComesFirstInTheNextFit) {
  FitResult result = fit(2 * kEpoch);
  EXPECT_TRUE(result.run.interrupted);
  EXPECT_EQ(result.ended, "interrupted during the evaluation");
  EXPECT_THAT(steps_.epochs, IsEmpty());
  EXPECT_THAT(steps_.saved_steps(), ElementsAre(4));
  steps_.scores = {0.5, 0.75};
  result = fit(2 * kEpoch);
  EXPECT_THAT(steps_.epoch_ends(), ElementsAre(4, 8));
  EXPECT_THAT(steps_.saved_steps(), ElementsAre(4, 4, 8));
  EXPECT_FALSE(result.run.interrupted);
}

TEST_F(FitTest, WhatWasTrainedIsSavedAndTheFirstErrorIsThrown) {
  steps_.scores = {0.5};
  steps_.fails_at = 2 * kEpoch;
  EXPECT_THAT(thrown_by([&] { fit(3 * kEpoch); }), HasSubstr("the step failed"));
  EXPECT_THAT(steps_.saved_steps(), ElementsAre(4, 8));
  steps_.fails_at = 3 * kEpoch;
  steps_.throws_in_save = true;
  options_.evaluates = false;
  EXPECT_THAT(thrown_by([&] { fit(3 * kEpoch); }), HasSubstr("the step failed"));
  EXPECT_THAT(steps_.saved_steps(), ElementsAre(4, 8, 12));
}

TEST_F(FitTest, NothingIsSavedWhereTheFirstStepFails) {
  steps_.fails_at = 0;
  EXPECT_THAT(thrown_by([&] { fit(kEpoch); }), HasSubstr("the step failed"));
  EXPECT_THAT(steps_.saved, IsEmpty());
}

TEST_F(FitTest, ACriterionThatTheEvaluationDoesNotGiveIsAnError) {
  options_.criterion = "accuracy";
  options_.criterion_option = "--keep-best accuracy";
  steps_.scores = {0.5};
  EXPECT_EQ(thrown_by([&] { fit(kEpoch); }),
            "Error: --keep-best accuracy: the evaluation does not compute this score; it computes "
            "top1: choose one of them");
}

TEST_F(FitTest, TheRateIsThatOfTheLastPartThatHasEnoughSteps) {
  const auto rate = [](double value, std::size_t steps) {
    return Measured{value, value, value, "1/s", steps};
  };
  steps_.scores = {0.5, 0.5, 0.5};
  steps_.rates = {rate(10, 100), rate(20, 200), rate(30, 1)};
  const FitResult result = fit(3 * kEpoch);
  EXPECT_EQ(result.run.steps_per_second.value, 20);
  EXPECT_EQ(result.run.steps_per_second.n, 200);
}

TEST_F(FitTest, TheCriterionIsTheFirstMetricOrTheLossUnlessOneIsChosen) {
  EXPECT_EQ(fit_criterion(trainer_.pipeline(), std::nullopt, "--keep-best"), "loss");
  const Pipeline scored = make_pipeline().metric(mean_iou("label", 5));
  EXPECT_EQ(fit_criterion(scored, std::nullopt, "--keep-best"), "mean_iou");
  EXPECT_EQ(fit_criterion(scored, "accuracy", "--keep-best"), "accuracy");
  EXPECT_THAT(thrown_by([&] { fit_criterion(scored, "mean_iu", "--keep-best"); }),
              HasSubstr("--keep-best: unknown score 'mean_iu'; did you mean 'mean_iou'?"));
}

}  // namespace
}  // namespace slipstream
