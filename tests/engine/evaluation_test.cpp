#include "slipstream/engine/evaluation.h"

#include <ATen/Functions.h>
#include <gmock/gmock.h>
#include <torch/nn/modules/linear.h>

#include <set>

#include "engine/context_parts.h"
#include "engine/current_lane.h"
#include "engine/engine.h"
#include "slipstream/datasets/datasets.h"
#include "slipstream/transforms/transforms.h"
#include "support/own_op.h"
#include "support/thrown.h"

namespace slipstream::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

class EvaluationTest : public EngineTest {
 protected:
  static std::vector<Plan> plans() {
    Plan workers = build_plan(kThreeLanes, Driver::threaded, 4);
    workers.schedule.loader.num_workers = 3;
    return {serial_plan(), build_plan(kThreeLanes, Driver::interleaved, 3), workers};
  }

  static Pipeline make_test_data(std::size_t samples, std::size_t batch_size) {
    return tiny_pipeline({.batch_size = batch_size, .samples = samples, .seed = 9});
  }

  static Pipeline make_model(const Tiny& tiny) {
    return tiny_pipeline(tiny).metric(mean_iou("label", 5)).metric(class_accuracy("label", 5));
  }

  /// Computes the scores sample by sample, as a user of PyTorch would.
  static std::vector<std::pair<std::string, double>> compute_reference_scores(
      const Pipeline& model, const Pipeline& data) {
    const c10::Device device = context().device();
    const CurrentLane current(context(), get_lane(context(), "by hand", 0));
    const auto encode = model.stages().front().stage;
    model.train_step()->modules().front().module->eval();
    double loss = 0, correct = 0, labels = 0;
    at::Tensor confusion = at::zeros({5, 5}, at::kDouble);
    const at::NoGradGuard no_gradients;
    for (std::size_t i = 0; i < data.dataset()->size(); ++i) {
      Sample sample;
      data.dataset()->read(i, sample);
      Batch batch;
      const auto tensor = [&](std::size_t field, at::IntArrayRef shape) {
        auto* const bytes = sample.fields[field].array.span().as<std::uint8_t>();
        return at::from_blob(bytes, shape, at::kByte).clone();
      };
      batch.set("image", tensor(0, {1, 8, 8, 3}).permute({0, 3, 1, 2}).to(device));
      batch.set("label", tensor(1, {1, 8, 8}).to(device));
      encode.run(batch);
      const at::Tensor output = model.train_step()->predict(batch);
      const LossValue value = model.train_step()->compute_loss(output, batch);
      loss += value.loss.item<double>();
      const at::Tensor predicted = output.argmax(1).cpu().reshape(-1);
      const at::Tensor label = batch.at("label").cpu().reshape(-1);
      correct += (predicted == label).sum().item<double>();
      labels += static_cast<double>(label.numel());
      for (std::int64_t k = 0; k < label.numel(); ++k)
        confusion[label[k].item<std::int64_t>()][predicted[k].item<std::int64_t>()] += 1;
    }
    model.train_step()->modules().front().module->train();
    const at::Tensor both = confusion.diagonal(), rows = confusion.sum(1),
                     columns = confusion.sum(0);
    const at::Tensor whole = rows + columns - both;
    return {{"loss", loss / static_cast<double>(data.dataset()->size())},
            {"accuracy", correct / labels},
            {"mean_iou", (both / whole).masked_select(whole > 0).mean().item<double>()},
            {"class_accuracy", (both / rows).masked_select(rows > 0).mean().item<double>()}};
  }
};

TEST_F(EvaluationTest, ScoresMatchReferenceForEveryPlanAndBatchSize) {
  const Pipeline model = make_model({.noisy = true});
  Trainer trainer(model, context(), exact());
  trainer.run(serial_plan(), steps(3));
  const auto expected = compute_reference_scores(model, make_test_data(22, 4));
  for (const std::size_t batch_size : {1, 4, 5, 22, 64})
    for (const Plan& plan : plans()) {
      SCOPED_TRACE(describe(plan) + ", batch size " + std::to_string(batch_size));
      Evaluator evaluator(model, make_test_data(22, batch_size), context(), exact());
      const EvaluationResult result = evaluator.run(plan);
      EXPECT_EQ(result.samples, 22U);
      ASSERT_EQ(result.scores.size(), expected.size());
      for (std::size_t i = 0; i < expected.size(); ++i) {
        EXPECT_EQ(result.scores[i].first, expected[i].first);
        EXPECT_NEAR(result.scores[i].second, expected[i].second, 1e-5) << expected[i].first;
      }
      EXPECT_EQ(result.counts.at("mean_iou").sum().item<double>(), 22 * 64);
    }
}

TEST_F(EvaluationTest, ScoresAreBitIdenticalAcrossPlansAndRepeats) {
  const Pipeline model = make_model({.noisy = true});
  const Trainer trainer(model, context(), exact());
  Evaluator evaluator(model, make_test_data(22, 4), context(), exact());
  const auto expected = evaluator.run(serial_plan()).scores;
  for (const Plan& plan : plans())
    EXPECT_EQ(evaluator.run(plan).scores, expected) << describe(plan);
}

TEST_F(EvaluationTest, EvaluationDoesNotChangeTraining) {
  const std::uint64_t alone = fresh_run({.noisy = true}, serial_plan(), steps(12)).digest;
  for (const Plan& plan : plans()) {
    const Pipeline model = make_model({.noisy = true});
    Trainer trainer(model, context(), exact());
    Evaluator evaluator(model, make_test_data(22, 4), context(), exact());
    RunResult result;
    for (int part = 0; part < 4; ++part) {
      result = trainer.run(plan, steps(3));
      evaluator.run(plan);
    }
    EXPECT_EQ(result.digest, alone) << describe(plan);
    EXPECT_TRUE(model.train_step()->modules().front().module->is_training());
  }
}

TEST_F(EvaluationTest, TrainingModesAreRestored) {
  const Pipeline model = make_model({.noisy = true});
  const auto module = model.train_step()->modules().front().module;
  Trainer trainer(model, context(), exact());
  const auto inner = module->named_modules()["norm"];
  Evaluator evaluator(model, make_test_data(8, 4), context(), exact());
  inner->eval();
  evaluator.run(serial_plan());
  EXPECT_TRUE(module->is_training());
  EXPECT_FALSE(inner->is_training());
}

TEST_F(EvaluationTest, TrainingModeOfSharedSubmoduleIsRestored) {
  const Pipeline model = make_model({.noisy = true});
  const auto module = model.train_step()->modules().front().module;
  const auto inner = module->named_modules()["norm"];
  const Trainer trainer(model, context(), exact());
  Evaluator evaluator(model, make_test_data(8, 4), context(), exact());
  const auto other = module->register_module("other", std::make_shared<torch::nn::Module>("other"));
  other->register_module("norm", inner);
  other->eval();
  inner->train();
  evaluator.run(serial_plan());
  EXPECT_TRUE(module->is_training());
  EXPECT_FALSE(other->is_training());
  EXPECT_TRUE(inner->is_training());
}

TEST_F(EvaluationTest, EmaWeightsAreEvaluated) {
  const Pipeline model = make_model({.noisy = true}).with_training({.ema_decay = 0.5});
  Trainer trainer(model, context(), exact());
  trainer.run(serial_plan(), steps(4));
  const std::uint64_t before = trainer.digest();
  Evaluator evaluator(model, make_test_data(22, 4), context(), exact());
  const double averaged = evaluator.run(serial_plan()).scores.front().second;
  EXPECT_EQ(trainer.digest(), before);
  const at::NoGradGuard no_gradients;
  std::map<std::string, at::Tensor> own;
  for (const auto& each : model.train_step()->modules().front().module->named_parameters())
    own[each.key()] = each.value();
  for (const auto& each : model.train_step()->modules().front().module->named_buffers())
    own[each.key()] = each.value();
  const double plain = compute_reference_scores(model, make_test_data(22, 4)).front().second;
  EXPECT_NE(static_cast<float>(averaged), static_cast<float>(plain));
  for (const NamedTensor& each : model.train_step()->averaged())
    own.at(each.name).copy_(each.tensor);
  EXPECT_NEAR(averaged, compute_reference_scores(model, make_test_data(22, 4)).front().second,
              1e-5);
}

TEST_F(EvaluationTest, EvaluationAfterStoppedOneGivesFullScores) {
  const Pipeline model = make_model({});
  const Trainer trainer(model, context(), exact());
  Evaluator evaluator(model, make_test_data(22, 4), context(), exact());
  const auto expected = evaluator.run(serial_plan()).scores;
  RunOptions options;
  int asked = 0;
  options.stop = [&] { return ++asked > 2; };
  const EvaluationResult early = evaluator.run(serial_plan(), options);
  EXPECT_TRUE(early.interrupted);
  EXPECT_TRUE(early.scores.empty());
  EXPECT_EQ(evaluator.run(serial_plan()).scores, expected);
}

TEST_F(EvaluationTest, TopKCountsLabelsAmongKLargestOutputs) {
  const at::Tensor output = at::tensor({3.F, 1.F, 2.F, 0.F, 5.F, 5.F, 0.F, 0.F, NAN, 1.F, 1.F, 1.F})
                                .view({3, 4})
                                .to(context().device());
  Batch batch;
  batch.set("label", at::tensor({2, 1, 0}, at::kLong).to(context().device()));
  const auto share = [&](std::int64_t k) {
    const Metric metric = top_k("label", k);
    at::Tensor counts =
        at::zeros(metric.shape, at::TensorOptions(at::kDouble).device(context().device()));
    metric.add(counts, output, batch);
    return metric.value(counts.cpu());
  };
  EXPECT_DOUBLE_EQ(share(1), 0);  // in a tie the first class counts; NaN never counts
  EXPECT_DOUBLE_EQ(share(2), 2.0 / 3);
  EXPECT_DOUBLE_EQ(share(4), 2.0 / 3);
  EXPECT_EQ(top_k("label", 5).name, "top5");
  EXPECT_THAT(thrown_by([] { top_k("label", 0); }), HasSubstr("Refused: top_k"));
}

TEST_F(EvaluationTest, EmptyOrDuplicateMetricNameIsRefused) {
  for (const char* name : {"", "loss", "accuracy", "mean_iou"})
    EXPECT_THAT(thrown_by([&] {
                  make_model({}).metric({name, {1}, {}, {}});
                }),
                AllOf(StartsWith("Refused: "), HasSubstr(name)));
}

TEST_F(EvaluationTest, CustomTrainStepWithoutPredictCannotBeEvaluated) {
  struct Own final : TrainStep {
    torch::nn::Linear linear{2, 2};
    std::vector<NamedModule> modules() const override { return {{"", linear.ptr()}}; }
    void bind(const StepSettings&) override {}
    LossValue train(const Batch&) override { return {at::zeros({}), {}, {}, 0}; }
    std::vector<NamedTensor> state() const override { return {}; }
  };
  const Pipeline model =
      pipeline(synthetic_segmentation({32, 8, 5, 1}), {4}).train("train", std::make_shared<Own>());
  Evaluator evaluator(model, model, context(), exact());
  EXPECT_THAT(thrown_by([&] {
                evaluator.run(build_plan({{"copy", "train"}}, Driver::threaded, 1));
              }),
              HasSubstr("cannot be evaluated"));
}

/// A data set some of whose samples cannot be read.
class DatasetWithUnreadableSamples final : public Dataset {
 public:
  DatasetWithUnreadableSamples(std::shared_ptr<const Dataset> whole, std::set<std::size_t> bad)
      : whole_(std::move(whole)), bad_(std::move(bad)) {}
  std::size_t size() const override { return whole_->size(); }
  void read(std::size_t index, Sample& out) const override {
    if (bad_.contains(index)) throw Error("it is damaged");
    whole_->read(index, out);
  }
  std::vector<FieldSpec> fields() const override { return whole_->fields(); }

 private:
  std::shared_ptr<const Dataset> whole_;
  std::set<std::size_t> bad_;
};

TEST_F(EvaluationTest, BadSamplesAreSkippedAndOthersCountOnce) {
  const Pipeline model = make_model({.noisy = true});
  Trainer trainer(model, context(), exact());
  trainer.run(serial_plan(), steps(3));
  const std::set<std::size_t> bad = {0, 5, 6, 7, 8, 9, 21};
  const auto all = make_test_data(22, 4).dataset();
  std::vector<std::uint64_t> good;
  for (std::size_t i = 0; i < 22; ++i)
    if (!bad.contains(i)) good.push_back(i);
  const auto expected = compute_reference_scores(model, pipeline(subset(all, good), {4}));
  for (const std::size_t batch_size : {1, 4, 5, 22})
    for (const Plan& plan : plans()) {
      SCOPED_TRACE(describe(plan) + ", batch size " + std::to_string(batch_size));
      const Pipeline data =
          pipeline(std::make_shared<DatasetWithUnreadableSamples>(all, bad), {batch_size});
      Evaluator evaluator(model, data, context(), exact(), {.on_bad_sample = OnBadSample::skip});
      for (int i = 0; i < 2; ++i) {
        const EvaluationResult result = evaluator.run(plan);
        EXPECT_EQ(result.samples, 15U);
        EXPECT_EQ(result.run.skipped.samples.size(), bad.size());
        ASSERT_EQ(result.scores.size(), expected.size());
        for (std::size_t k = 0; k < expected.size(); ++k)
          EXPECT_NEAR(result.scores[k].second, expected[k].second, 1e-5) << expected[k].first;
      }
    }
  const Pipeline data = pipeline(std::make_shared<DatasetWithUnreadableSamples>(all, bad), {4});
  Evaluator stops(model, data, context(), exact());
  EXPECT_THAT(thrown_by([&] { stops.run(serial_plan()); }), HasSubstr("it is damaged"));
}

Pipeline scaled(const Pipeline& data, bool scale) {
  return pipeline(data.dataset(), {4})
      .transform("convert", ToDtype{.dtype = DType::float32, .scale = scale});
}

TEST_F(EvaluationTest, SameImagesOptionRefusesDifferentImageRange) {
  const Pipeline data = make_test_data(8, 4);
  const Pipeline model = scaled(data, true).train("train", make_model({}).train_step());
  const EvaluationOptions same = {.same_images = true, .allowed_by = "say so"};
  const auto chain_refusal = [&](const Pipeline& evaluated, const EvaluationOptions& options) {
    return thrown_by([&] { Evaluator evaluator(model, evaluated, context(), exact(), options); });
  };
  EXPECT_EQ(chain_refusal(scaled(data, false), {}), "nothing");
  EXPECT_EQ(chain_refusal(scaled(data, true), same), "nothing");
  EXPECT_THAT(chain_refusal(scaled(data, false), same),
              AllOf(StartsWith("Refused: "), HasSubstr("'image' reach 255"),
                    HasSubstr("training reach 1:"), HasSubstr("If it is intended, say so")));
}

TEST_F(EvaluationTest, SameImagesOptionRefusesDifferentImageSize) {
  const Pipeline model = make_model({});
  const Pipeline larger =
      pipeline(make_test_data(8, 4).dataset(), {4}).transform("resize", Resize{.size = {16, 16}});
  Evaluator allowed(model, larger, context(), exact());
  EXPECT_THAT(thrown_by([&] {
                Evaluator evaluator(model, larger, context(), exact(), {.same_images = true});
              }),
              AllOf(StartsWith("Refused: "), HasSubstr("'image' is uint8 of shape 16 x 16 x 3"),
                    HasSubstr("trained on uint8 of shape 8 x 8 x 3")));
}

TEST_F(EvaluationTest, FieldWithDifferentDtypeThanInTrainingIsRefused) {
  const Pipeline model = make_model({});
  const Pipeline floats = pipeline(make_test_data(8, 4).dataset(), {4})
                              .transform("scale", ToDtype{.dtype = DType::float32, .scale = true});
  EXPECT_THAT(thrown_by([&] { Evaluator evaluator(model, floats, context(), exact()); }),
              AllOf(StartsWith("Refused: "), HasSubstr("'image' is float32"),
                    HasSubstr("trained on uint8")));
}

/// Increases the height of images in training, and declares that it has no effect in evaluation.
struct Pads : OwnOp {
  static constexpr std::string_view kName = "pads";
  bool is_random() const { return true; }
  FieldSpec output(const FieldSpec& in) const {
    FieldSpec out = in;
    if (out.shape[0] > 0) out.shape.dims[0] += 2;
    return out;
  }
  std::optional<AnyOp> for_evaluation() const { return std::nullopt; }
};

TEST_F(EvaluationTest, FieldWithDifferentShapeThanInTrainingIsRefused) {
  const Pipeline model = make_model({});
  const Pipeline padded = pipeline(make_test_data(8, 4).dataset(), {4}).transform("pad", Pads());
  EXPECT_THAT(thrown_by([&] { Evaluator evaluator(model, padded, context(), exact()); }),
              AllOf(StartsWith("Refused: "), HasSubstr("'image' is uint8 of shape 8 x 8 x 3"),
                    HasSubstr("trained on uint8 of shape 10 x 8 x 3")));
}

}  // namespace
}  // namespace slipstream::test
