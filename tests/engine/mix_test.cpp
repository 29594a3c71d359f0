#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <gmock/gmock.h>

#include <torch/nn/modules/linear.h>

#include <map>
#include <mutex>
#include <set>

#include "engine/engine.h"
#include "slipstream/engine/pipeline.h"
#include "slipstream/transforms/transforms.h"
#include "support/thrown.h"
#include "transforms/batch_chain.h"

namespace slipstream::test {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

constexpr std::size_t kBatch = 4;
constexpr std::int64_t kSize = 8;
constexpr std::int64_t kClasses = 5;
constexpr std::uint64_t kMixSamples = 22;  // five batches per epoch
constexpr std::uint64_t kSeed = 3;

using Chain = std::vector<NamedOp>;
using Seen = std::map<std::uint64_t, std::pair<at::Tensor, at::Tensor>>;

const Chain kSampleOps = {{"flip", RandomHorizontalFlip{0.5}}, {"float", ToDtype{.scale = true}}};

Chain append_to_sample_ops(const Chain& batch_ops) {
  Chain chain = kSampleOps;
  chain.insert(chain.end(), batch_ops.begin(), batch_ops.end());
  return chain;
}

const Chain kMixup = append_to_sample_ops({{"mixup", MixUp{0.4}}, {"soft", OneHot{0.1}}});
const Chain kCutMix = append_to_sample_ops({{"cutmix", CutMix{1}}});
const Chain kOneHot = append_to_sample_ops({{"one_hot", OneHot{0.2}}});

std::shared_ptr<const Dataset> pictures() {
  return synthetic_classification(
      {.samples = kMixSamples, .size = kSize, .classes = kClasses, .seed = kSeed});
}

struct HeadImpl : torch::nn::Module {
  HeadImpl() : linear(register_module("linear", torch::nn::Linear(kSize * kSize * 3, kClasses))) {}
  at::Tensor forward(const at::Tensor& images) {
    return linear->forward(images.to(at::kFloat).contiguous().flatten(1));
  }
  torch::nn::Linear linear;
};
TORCH_MODULE(Head);

class MixRunTest : public EngineTest {
 protected:
  static constexpr std::uint64_t kSteps = 13;  // more than two epochs

  /// The device steps are copy, mix, see and train. "see" records its input in `seen`.
  Pipeline declared(const Chain& chain, std::size_t batch_size = kBatch) {
    at::manual_seed(kSeed);
    Pipeline one = pipeline(pictures(), {.batch_size = batch_size, .seed = kSeed});
    for (const NamedOp& each : chain) one = std::move(one).transform(each.name, each.op);
    return std::move(one)
        .stage("see", frozen([this](Batch& batch) { see(batch); }))
        .train("train", Head(), sgd({.lr = 0.05, .momentum = 0.9}),
               cross_entropy("image", "label"));
  }

  static Plan plan_with(const Lanes& lanes, const std::string& on_device = "",
                        Driver driver = Driver::threaded) {
    Plan plan = build_plan(lanes, driver, lanes.size() + 1);
    plan.schedule.loader.on_device = on_device;
    plan.schedule.loader.num_workers = 2;
    return plan;
  }
  static Plan serial() { return plan_with({{"copy", "mix", "see", "train"}}); }
  static Plan pipelined() { return plan_with({{"copy"}, {"mix"}, {"see"}, {"train"}}); }

  RunResult run(const Chain& chain, const Plan& plan, const RunOptions& options,
                const RunHooks& hooks = {}) {
    Trainer one(declared(chain), context(), exact());
    return run_with(one, plan, options, hooks);
  }

  /// Returns the batches that the stage after "mix" gets.
  Seen record_batches(const Chain& chain, const Plan& plan, std::size_t batch_size = kBatch) {
    is_seeing_ = true;
    Trainer one(declared(chain, batch_size), context(), exact());
    seen_.clear();
    one.run(plan, steps(kSteps));
    is_seeing_ = false;
    return std::move(seen_);
  }

 private:
  void see(Batch& batch) {
    if (!is_seeing_) return;
    const std::lock_guard lock(mutex_);
    // On a GPU, the warm-up calls stages with a batch numbered 0 before the first step, which then
    // overwrites this entry.
    seen_[batch.number()] = {batch.at("image").cpu(), batch.at("label").cpu()};
  }

  bool is_seeing_ = false;
  std::mutex mutex_;
  Seen seen_;
};

/// The expected result of mixing a batch, computed value by value.
struct Reference {
  Reference(const Chain& chain, const at::Tensor& images, const at::Tensor& labels,
            std::uint64_t batch)
      : image(at::empty_like(images)), label(at::empty({images.size(0), kClasses})) {
    Chain samples = chain;
    const BatchOps ops = take_batch_ops(samples);
    const BatchChain drawing(
        ops, static_cast<std::uint32_t>(samples.size()),
        {{"image", FieldKind::image, DType::float32, {images.size(2), images.size(3), 3}, 0},
         {"label", FieldKind::label, DType::uint8, {}, kClasses}});
    const auto pixels = images.accessor<float, 4>();
    const auto numbers = labels.accessor<std::uint8_t, 1>();
    auto to = image.accessor<float, 4>();
    auto probability = label.accessor<float, 2>();
    const double smoothing = ops.one_hot ? ops.one_hot->label_smoothing : 0;
    const auto on = static_cast<float>(1 - smoothing + smoothing / kClasses);
    const auto off = static_cast<float>(smoothing / kClasses);
    const std::int64_t size = images.size(0);
    for (std::int64_t i = 0; i < size; ++i) {
      const DrawnMix d = drawing.draw(kSeed, batch, static_cast<std::uint32_t>(i));
      const std::int64_t j = i == 0 ? size - 1 : i - 1;
      for (std::int64_t c = 0; c < 3; ++c)
        for (std::int64_t y = 0; y < images.size(2); ++y)
          for (std::int64_t x = 0; x < images.size(3); ++x) {
            const bool is_in = d.top <= y && y < d.bottom && d.left <= x && x < d.right;
            const float mixed = pixels[i][c][y][x] * d.own + pixels[j][c][y][x] * d.other;
            to[i][c][y][x] = ops.mixup ? mixed : pixels[is_in ? j : i][c][y][x];
          }
      for (std::int64_t c = 0; c < kClasses; ++c)
        probability[i][c] =
            (numbers[i] == c ? on : off) * d.own + (numbers[j] == c ? on : off) * d.other;
    }
  }

  at::Tensor image, label;
};

TEST_F(MixRunTest, EveryPlanGivesTheSerialDigest) {
  std::set<std::uint64_t> different;
  for (const Chain& chain : {kMixup, kCutMix, kOneHot}) {
    const RunResult expected = run(chain, serial(), steps(kSteps));
    ASSERT_EQ(expected.losses.size(), kSteps);
    different.insert(expected.digest);
    for (const Driver driver : {Driver::interleaved, Driver::threaded})
      for (const Lanes& lanes :
           {Lanes{{"copy"}, {"mix"}, {"see"}, {"train"}}, Lanes{{"copy", "mix"}, {"see", "train"}},
            Lanes{{"copy"}, {"mix", "see", "train"}}}) {
        const Plan plan = plan_with(lanes, "", driver);
        const RunResult result = run(chain, plan, steps(kSteps), delayed(400, 5));
        EXPECT_EQ(result.losses, expected.losses) << describe(plan);
        EXPECT_EQ(result.accuracies, expected.accuracies) << describe(plan);
        EXPECT_EQ(result.digest, expected.digest) << describe(plan);
      }
    for (const std::string from : {"flip", "float"})
      for (const Lanes& lanes : {Lanes{{"copy"}, {"augment"}, {"mix"}, {"see"}, {"train"}},
                                 Lanes{{"copy"}, {"augment", "mix"}, {"see", "train"}},
                                 Lanes{{"copy", "augment", "mix", "see", "train"}}}) {
        const Plan plan = plan_with(lanes, from);
        EXPECT_EQ(run(chain, plan, steps(kSteps), delayed(400, 5)).digest, expected.digest)
            << describe(plan) << ", from " << from;
      }
  }
  EXPECT_EQ(different.size(), 3U);
}

TEST_F(MixRunTest, MixedImagesAndLabelsMatchReference) {
  // OneHot without smoothing leaves images unchanged, and the labels identify the samples.
  const Seen alone = record_batches(append_to_sample_ops({{"one_hot", OneHot{}}}), serial());
  for (const Chain& chain : {kMixup, kCutMix})
    for (const Plan& plan : {serial(), pipelined()}) {
      const Seen mixed = record_batches(chain, plan);
      ASSERT_EQ(mixed.size(), kSteps);
      for (const auto& [number, fields] : mixed) {
        const auto& [image, label] = alone.at(number);
        const Reference expected(chain, image, label.argmax(1).to(at::kByte), number);
        EXPECT_TRUE(same_bits(fields.first, expected.image)) << "batch " << number;
        EXPECT_TRUE(same_bits(fields.second, expected.label)) << "batch " << number;
        EXPECT_FALSE(same_bits(fields.first, image)) << "batch " << number;
      }
    }
}

TEST_F(MixRunTest, BatchOfOneSampleIsLeftUnchanged) {
  const Chain boxed = append_to_sample_ops({{"cutmix", CutMix{}}, {"one_hot", OneHot{}}});
  const Seen alone = record_batches(append_to_sample_ops({{"one_hot", OneHot{}}}), serial(), 1);
  const Seen mixed = record_batches(boxed, serial(), 1);
  ASSERT_FALSE(mixed.empty());
  for (const auto& [number, fields] : mixed) {
    EXPECT_TRUE(same_bits(fields.first, alone.at(number).first));
    EXPECT_TRUE(fields.second.allclose(alone.at(number).second));
  }
}

TEST_F(MixRunTest, RestoredStateContinuesToSerialDigest) {
  const std::uint64_t whole = run(kMixup, serial(), steps(kSteps)).digest;
  Trainer first(declared(kMixup), context(), exact());
  first.run(pipelined(), steps(6));
  const State at_6 = first.state();
  EXPECT_EQ(first.run(serial(), steps(kSteps - 6)).digest, whole);
  Trainer second(declared(kMixup), context(), exact());
  second.restore(at_6);
  EXPECT_EQ(run_with(second, pipelined(), steps(kSteps - 6), delayed(400, 5)).digest, whole);
}

TEST_F(MixRunTest, CachedBatchesGiveSerialDigestInPipelinedPlan) {
  for (const std::string after : {"collate", "copy", "mix"}) {
    RunOptions options = steps(kSteps);
    options.cut = Cut{after, 3};
    EXPECT_EQ(run(kMixup, pipelined(), options).digest, run(kMixup, serial(), options).digest)
        << after;
  }
}

TEST_F(MixRunTest, MixLaneIsMeasuredAlone) {
  Trainer one(declared(kMixup), context(), exact());
  const auto alone = measure_lanes_alone(one, pipelined(), 4);
  ASSERT_EQ(alone.size(), 4U);
  EXPECT_EQ(alone[1].first, "mix");
  EXPECT_EQ(one.position(), 0U);
}

TEST_F(MixRunTest, MixSharesLaneWithDeviceTransforms) {
  const Pipeline one = declared(kMixup);
  const auto lanes = [&](const std::string& transforms_device) {
    Lanes all;
    const Plan plan = placed_plan(one, "pipelined", transforms_device, kind(), {}, exact());
    for (const LanePlan& lane : plan.schedule.lanes) all.push_back(lane.steps);
    return all;
  };
  EXPECT_EQ(lanes("cpu"), (Lanes{{"copy"}, {"mix"}, {"see"}, {"train"}}));
  EXPECT_EQ(lanes("cuda"), (Lanes{{"copy"}, {"augment", "mix"}, {"see"}, {"train"}}));
}

TEST_F(MixRunTest, InvalidMixChainsAndPlansAreRefused) {
  const auto refusal = [&](const Chain& chain) {
    return thrown_by([&] { Trainer(declared(chain), context(), exact()); });
  };
  EXPECT_THAT(refusal({{"mixup", MixUp{}}, {"float", ToDtype{.scale = true}}}),
              StartsWith("Refused: transform 'float' comes after mixup"));
  EXPECT_THAT(refusal({{"mixup", MixUp{}}}), StartsWith("Refused: mixup needs float32 images"));
  EXPECT_THAT(refusal({{"float", ToDtype{.scale = true}}, {"mixup", MixUp{-1}}}),
              HasSubstr("alpha is -1"));
  EXPECT_THAT(thrown_by([&] { run(kMixup, plan_with(kThreeLanes), steps(1)); }),
              HasSubstr("step 'mix' is missing"));
  const Chain named = {{"mix", ToDtype{.scale = true}}, {"mixup", MixUp{}}};
  EXPECT_THAT(refusal(named), HasSubstr("the step name 'mix' is already used"));
  EXPECT_EQ(refusal({{"float", ToDtype{.scale = true}}, {"mix", MixUp{}}}), "nothing");
  Tiny masks;
  masks.transforms = kMixup;
  EXPECT_THAT(thrown_by([&] { trainer(masks); }),
              StartsWith("Refused: mixup mixes one label per image, but 'label' is a mask"));
  masks.transforms = kOneHot;
  EXPECT_THAT(thrown_by([&] { trainer(masks); }), HasSubstr("one_hot needs one label per sample"));
}

}  // namespace
}  // namespace slipstream::test
