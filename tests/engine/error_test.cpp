#include <ATen/ops/rand_like.h>
#include <gmock/gmock.h>

#include <torch/nn/modules/conv.h>

#include "engine/engine.h"
#include "support/made_set.h"
#include "support/thrown.h"

namespace slipstream::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

constexpr std::uint64_t kErrorSteps = 12;

class StageErrorTest : public EngineTest {
 protected:
  static std::vector<Plan> plans() {
    return {serial_plan({"check"}),
            build_plan({{"copy"}, {"encode"}, {"check"}, {"train"}}, Driver::interleaved, 5),
            build_plan({{"copy"}, {"encode"}, {"check"}, {"train"}}, Driver::threaded, 4),
            build_plan({{"copy", "encode", "check"}, {"train"}}, Driver::threaded, 3)};
  }

  /// Returns the digest of an uninterrupted run.
  std::uint64_t whole(const Tiny& tiny) {
    failing_ = kNever;
    return fresh_run(tiny, serial_plan({"check"}), steps(kErrorSteps)).digest;
  }

  /// Fails once at `batch`, then resumes, and must end with the digest of an undisturbed run.
  void fail_and_resume(const Tiny& tiny, const Plan& plan, std::uint64_t batch,
                       const std::string& stage, std::uint64_t digest) {
    SCOPED_TRACE(describe(plan) + ", failing at step " + std::to_string(batch));
    const auto one = trainer(tiny);
    failing_ = batch;
    const std::string message = thrown_by([&] { one->run(plan, steps(kErrorSteps)); });
    EXPECT_THAT(message, StartsWith("Error: stage '" + stage + "' at step " +
                                    std::to_string(batch) + ": no luck"));
    EXPECT_LE(one->position(), batch);
    failing_ = kNever;
    const RunResult rest = one->run(plan, steps(kErrorSteps - one->position()));
    EXPECT_EQ(one->position(), kErrorSteps);
    EXPECT_EQ(rest.digest, digest);
  }

  void maybe_fail(std::uint64_t batch) const {
    if (batch == failing_) throw std::runtime_error("no luck");
  }

  static constexpr std::uint64_t kNever = ~std::uint64_t{0};
  std::uint64_t failing_ = kNever;
};

TEST_F(StageErrorTest, ThrowingFrozenStageIsNamedAndRunResumes) {
  Tiny tiny;
  tiny.extra = {{"check", [this](Batch& batch) { maybe_fail(batch.number()); }}};
  const std::uint64_t digest = whole(tiny);
  for (const Plan& plan : plans())
    for (std::uint64_t batch :
         {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{6}, kErrorSteps - 1}) {
      // On a GPU, the warm-up calls stages with a batch numbered 0 before the first step.
      if (on_gpu() && batch == 0) continue;
      fail_and_resume(tiny, plan, batch, "check", digest);
    }
}

TEST_F(StageErrorTest, FrozenStageThatUsesTorchGeneratorIsAnError) {
  Tiny tiny;
  tiny.extra = {{"check", [](Batch& batch) { at::rand_like(batch.at("features")); }}};
  for (const Plan& plan : plans())
    EXPECT_THAT(thrown_by([&] { fresh_run(tiny, plan, steps(2)); }),
                AllOf(StartsWith("Error: stage 'check' at step 0: it used random numbers"),
                      HasSubstr("seeded from Batch::number()")));
}

TEST_F(StageErrorTest, ThrowingLossNamesTrainingStageAndRunResumes) {
  Tiny tiny;
  tiny.extra = {{"check", [](Batch&) {}}};
  tiny.loss = [this](const at::Tensor& output, const Batch& batch) {
    maybe_fail(batch.number());
    return output.square().mean();
  };
  const std::uint64_t digest = whole(tiny);
  for (const Plan& plan : plans())
    for (std::uint64_t batch : {std::uint64_t{0}, std::uint64_t{5}, kErrorSteps - 1})
      fail_and_resume(tiny, plan, batch, "train", digest);
}

TEST_F(StageErrorTest, ThrownIntIsReportedAsNonStdException) {
  Tiny tiny;
  tiny.loss = [](const at::Tensor&, const Batch&) -> at::Tensor { throw 42; };
  EXPECT_THAT(
      thrown_by([&] { fresh_run(tiny, serial_plan(), steps(1)); }),
      StartsWith("Error: stage 'train' at step 0: an exception that is not a std::exception"));
}

TEST_F(StageErrorTest, OriginalExceptionIsNestedInError) {
  Tiny tiny;
  tiny.loss = [](const at::Tensor&, const Batch&) -> at::Tensor { throw std::out_of_range("far"); };
  for (const Plan& plan :
       {serial_plan(), build_plan({{"copy"}, {"encode"}, {"train"}}, Driver::threaded, 4)})
    try {
      fresh_run(tiny, plan, steps(1));
      ADD_FAILURE() << "no exception was thrown";
    } catch (const Error& error) {
      EXPECT_THROW(std::rethrow_if_nested(error), std::out_of_range);
    }
}

TEST_F(StageErrorTest, HostOutOfMemorySuggestsRemedy) {
  const std::vector<std::function<void()>> failures = {
      [] { throw std::bad_alloc(); },
      [] { TORCH_CHECK(false, "DefaultCPUAllocator: can't allocate memory: you tried ..."); }};
  for (const auto& failure : failures) {
    Tiny tiny;
    tiny.loss = [&failure](const at::Tensor& output, const Batch&) {
      failure();
      return output;
    };
    EXPECT_EQ(thrown_by([&] { fresh_run(tiny, serial_plan(), steps(1)); }),
              "Error: stage 'train' at step 0: out of memory. Remedy: use a smaller batch size, "
              "image size or depth.");
  }
}

TEST_F(StageErrorTest, UnknownBatchFieldIsAnErrorWithSuggestion) {
  Tiny tiny;
  tiny.extra = {{"check", [](Batch& batch) { static_cast<void>(batch.at("imge")); }}};
  EXPECT_THAT(
      thrown_by([&] { fresh_run(tiny, plans()[2], steps(3)); }),
      AllOf(StartsWith("Error: "), HasSubstr("unknown batch field 'imge'; did you mean 'image'?")));
}

TEST_F(StageErrorTest, NonScalarLossIsAnErrorAtStepZero) {
  Tiny tiny;
  tiny.loss = [](const at::Tensor& output, const Batch&) { return output; };
  const auto one = trainer(tiny);
  for (int again = 0; again < 2; ++again)
    EXPECT_THAT(
        thrown_by([&] { one->run(build_plan(kThreeLanes, Driver::threaded, 3), steps(3)); }),
        StartsWith("Error: stage 'train' at step 0: "));
  EXPECT_EQ(one->position(), 0U);
}

TEST_F(StageErrorTest, ThrowingProgressCallbackEndsTheRun) {
  RunOptions options = steps(kErrorSteps);
  options.progress = [](const Progress& progress) {
    if (progress.step == 3) throw std::runtime_error("enough");
  };
  const auto one = trainer({});
  EXPECT_THAT(thrown_by([&] { one->run(build_plan(kThreeLanes, Driver::threaded, 3), options); }),
              HasSubstr("enough"));
  EXPECT_EQ(thrown_by([&] { one->run(serial_plan(), steps(3)); }), "nothing");
}

/// A data set whose sample `bad` cannot be read.
std::shared_ptr<const Dataset> faulty_data(std::size_t bad) {
  const auto set = set_around(synthetic_segmentation({32, 8, 5, 1}), [bad](std::size_t index) {
    if (index == bad) throw Error("the disk is gone");
  });
  set->noun = "item";
  return set;
}

TEST_F(StageErrorTest, UnreadableSampleIsReportedAsInputError) {
  Tiny tiny;
  tiny.dataset = faulty_data(13);
  for (const Plan& plan : {serial_plan(), build_plan(kThreeLanes, Driver::interleaved, 4),
                           build_plan(kThreeLanes, Driver::threaded, 3)}) {
    const auto one = trainer(tiny);
    const std::string message = thrown_by([&] { one->run(plan, steps(8)); });
    EXPECT_THAT(message, AllOf(StartsWith("Error: input at step "), HasSubstr("item 13"),
                               HasSubstr("the disk is gone"), testing::Not(HasSubstr("stage '"))))
        << describe(plan);
    EXPECT_LT(one->position(), 8U);
  }
}

TEST_F(StageErrorTest, StageErrorWhileFillingCacheIsReportedAsBeforeFirstStep) {
  Tiny tiny;
  tiny.extra = {{"check", [this](Batch& batch) { maybe_fail(batch.number()); }}};
  failing_ = 0;
  RunOptions options = steps(3);
  options.cut = Cut{"check", 2};
  const auto one = trainer(tiny);
  EXPECT_EQ(thrown_by([&] { one->run(serial_plan({"check"}), options); }),
            "Error: stage 'check' before the first step: no luck");
  failing_ = kNever;
  EXPECT_EQ(thrown_by([&] { one->run(serial_plan({"check"}), options); }), "nothing");
}

TEST_F(StageErrorTest, ModelWithFewerOutputsThanClassesIsAnError) {
  const auto declared = [](std::int64_t outputs, bool merges) {
    const torch::nn::Conv2d conv(torch::nn::Conv2dOptions(3, outputs, 1));
    return pipeline(synthetic_segmentation({32, 8, 5, 1}), {4})
        .stage("to_float", frozen([merges](Batch& batch) {
                 batch.set("image", batch.at("image").to(at::kFloat));
                 if (merges) batch.set("label", batch.at("label").clamp_max(3));
               }))
        .train("train", conv, sgd({}), cross_entropy("image", "label"),
               {.on_nan = OnNonFinite::skip});
  };
  for (const Plan& plan : {build_plan({{"copy", "to_float", "train"}}, Driver::interleaved, 1),
                           build_plan({{"copy"}, {"to_float"}, {"train"}}, Driver::threaded, 4)}) {
    Trainer small(declared(4, false), context(), exact());
    EXPECT_THAT(thrown_by([&] { small.run(plan, steps(2)); }),
                AllOf(StartsWith("Error: stage 'train' at step 0: cross entropy: an output of "),
                      HasSubstr("has 4 classes in its second dimension, but the labels are of 5")));
    Trainer merged(declared(4, true), context(), exact());
    EXPECT_EQ(thrown_by([&] { merged.run(plan, steps(2)); }), "nothing");
    Trainer large(declared(6, false), context(), exact());
    EXPECT_EQ(thrown_by([&] { large.run(plan, steps(2)); }), "nothing");
  }
}

class RefusalTest : public EngineTest {
 protected:
  static Pipeline bare() { return pipeline(synthetic_segmentation({32, 8, 5, 1}), {4}); }
  static torch::nn::Conv2d conv() { return torch::nn::Conv2d(torch::nn::Conv2dOptions(3, 5, 1)); }
  static Loss loss() { return cross_entropy("image", "label"); }
  static FrozenStage nothing() {
    return frozen([](Batch&) {});
  }
};

TEST_F(RefusalTest, PlanThatDoesNotMatchTheTrainerIsRefused) {
  const auto one = trainer({});
  Plan other = serial_plan();
  other.numerics.precision = Precision::bf16;
  EXPECT_THAT(thrown_by([&] { one->run(other, steps(1)); }),
              StartsWith("Refused: the plan's numerics differ from the trainer's"));
  EXPECT_THAT(thrown_by([&] { one->run(serial_plan({"augment"}), steps(1)); }),
              AllOf(StartsWith("Refused: this plan cannot be run:"), HasSubstr("'augment'")));
  EXPECT_THAT(thrown_by([&] { one->run(build_plan(kThreeLanes, Driver::threaded, 2), steps(1)); }),
              AllOf(StartsWith("Refused: "), HasSubstr("schedule.depth is 2")));
  RunOptions options = steps(1);
  options.last_step = "encod";
  EXPECT_THAT(thrown_by([&] { one->run(serial_plan(), options); }),
              AllOf(StartsWith("Refused: "), HasSubstr("did you mean 'encode'?")));
  EXPECT_EQ(one->position(), 0U);
  EXPECT_EQ(thrown_by([&] { one->run(serial_plan(), steps(1)); }), "nothing");
}

TEST_F(RefusalTest, CutWithUnknownStepNoItemsOrNoStepsLeftIsRefused) {
  const auto one = trainer({});
  RunOptions options = steps(1);
  options.cut = Cut{"colate", 1};
  EXPECT_THAT(thrown_by([&] { one->run(serial_plan(), options); }),
              AllOf(StartsWith("Refused: "), HasSubstr("did you mean 'collate'?")));
  options.cut = Cut{"encode", 0};
  EXPECT_THAT(thrown_by([&] { one->run(serial_plan(), options); }), StartsWith("Refused: "));
  options.cut = Cut{"encode", 1};
  options.last_step = "encode";
  EXPECT_THAT(thrown_by([&] { one->run(serial_plan(), options); }),
              StartsWith("Refused: the run has no step left"));
  EXPECT_EQ(thrown_by([&] { one->run(serial_plan(), steps(1)); }), "nothing");
}

TEST_F(RefusalTest, BatchSizeLargerThanDatasetIsRefused) {
  EXPECT_THAT(thrown_by([&] { trainer({.batch_size = 65}); }),
              AllOf(StartsWith("Refused: "), HasSubstr("65"), HasSubstr("64")));
}

TEST_F(RefusalTest, ReservedOrDuplicateStepNameIsRefused) {
  for (const char* name : {"read", "decode", "collate", "copy", "*", "", "first"})
    EXPECT_THAT(thrown_by([&] { bare().stage("first", nothing()).stage(name, nothing()); }),
                StartsWith("Refused: pipeline: "))
        << name;
  EXPECT_THAT(
      thrown_by([&] { bare().stage("first", nothing()).train("first", conv(), sgd({}), loss()); }),
      HasSubstr("the step name 'first' is already used"));
  EXPECT_EQ(thrown_by([&] { bare().train("decode", conv(), sgd({}), loss()); }), "nothing");
}

TEST_F(RefusalTest, PipelineWithoutOneFinalTrainingStageIsRefused) {
  const auto whole = [] { return bare().train("train", conv(), sgd({}), loss()); };
  EXPECT_THAT(thrown_by([&] { whole().train("again", conv(), sgd({}), loss()); }),
              HasSubstr("'again' is declared after the training stage 'train'"));
  EXPECT_THAT(thrown_by([&] { whole().stage("late", nothing()); }),
              HasSubstr("'late' is declared after the training stage 'train'"));
  EXPECT_THAT(thrown_by([&] { Trainer(bare(), context(), exact()); }),
              StartsWith("Refused: pipeline: it has no training stage"));
  EXPECT_THAT(thrown_by([] { pipeline(nullptr, {}); }), StartsWith("Refused: "));
  EXPECT_THAT(thrown_by([] {
                pipeline(synthetic_segmentation({8, 8, 5, 1}), {0});
              }),
              StartsWith("Refused: "));
}

TEST_F(RefusalTest, FrozenStageWithTrainableOrSharedParametersIsRefused) {
  torch::nn::Conv2d encoder = conv();
  const auto declare = [&](const torch::nn::Conv2d& trained) {
    return thrown_by([&] {
      bare().stage("encode", frozen(encoder, "image", "f")).train("t", trained, sgd({}), loss());
    });
  };
  EXPECT_THAT(declare(conv()),
              AllOf(StartsWith("Refused: stage 'encode': "), HasSubstr("requires gradients"),
                    HasSubstr("in training mode"), HasSubstr("call slipstream::freeze(*module)")));
  for (auto& parameter : encoder->parameters()) parameter.set_requires_grad(false);
  EXPECT_THAT(declare(conv()),
              AllOf(HasSubstr("in training mode"), testing::Not(HasSubstr("requires gradients"))));
  freeze(*encoder);
  EXPECT_EQ(declare(conv()), "nothing");

  torch::nn::Conv2d sharing = conv();
  sharing->bias.set_data(encoder->bias);
  EXPECT_THAT(declare(sharing), AllOf(StartsWith("Refused: stage 'encode': shares a parameter"),
                                      HasSubstr("give it a copy")));
}

TEST_F(RefusalTest, TrainingStageWithoutTrainableParameterOrOptimizerIsRefused) {
  torch::nn::Conv2d fixed = conv();
  freeze(*fixed);
  EXPECT_THAT(thrown_by([&] { bare().train("t", fixed, nullptr, loss()); }),
              AllOf(HasSubstr("stage 't': no parameter requires gradients"),
                    HasSubstr("stage 't': no optimizer")));
}

TEST_F(RefusalTest, UnknownOrMissingDeviceIsRefused) {
  EXPECT_THAT(thrown_by([] { Context("gpu"); }), StartsWith("Refused: unknown device 'gpu'"));
  EXPECT_THAT(thrown_by([] { Context("cuda:64"); }),
              StartsWith("Refused: device 'cuda:64' is not available: "));
  EXPECT_THAT(thrown_by([] { Context("cuda:-1"); }), StartsWith("Refused: unknown device"));
}

}  // namespace
}  // namespace slipstream::test
