#include "slipstream/engine/checkpoint.h"

#include <ATen/Functions.h>
#include <gmock/gmock.h>
#include <torch/nn/module.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <fstream>
#include <thread>

#include "engine/engine.h"
#include "support/temporary_folder.h"
#include "support/thrown.h"

namespace slipstream::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

namespace fs = std::filesystem;

constexpr std::uint64_t kSteps = 12;

class CheckpointTest : public EngineTest {
 protected:
  static std::vector<Plan> plans() {
    return {serial_plan(), build_plan(kThreeLanes, Driver::threaded, 3),
            build_plan(kThreeLanes, Driver::interleaved, 4)};
  }

  static std::unique_ptr<Trainer> make_trainer(const Tiny& tiny, const TrainingOptions& options) {
    return std::make_unique<Trainer>(tiny_pipeline(tiny).with_training(options), context(),
                                     exact());
  }

  fs::path folder() const { return temporary_.path() / "checkpoints"; }
  std::vector<std::string> names() const {
    std::vector<std::string> all;
    for (const auto& each : fs::directory_iterator(folder()))
      all.push_back(each.path().filename().string());
    std::sort(all.begin(), all.end());
    return all;
  }
  void flip_last_bit(const fs::path& file) const {
    std::fstream bytes(file, std::ios::in | std::ios::out | std::ios::binary);
    bytes.seekg(-1, std::ios::end);
    const char last = static_cast<char>(bytes.get());
    bytes.seekp(-1, std::ios::end);
    bytes.put(static_cast<char>(last ^ 1));
  }

  TemporaryFolder temporary_;
};

TEST_F(CheckpointTest, ResumeAtAnyStepUnderAnyPlanGivesUninterruptedDigest) {
  const std::vector<TrainingOptions> ways = {
      {},
      {.accumulate = 3,
       .clip_grad_norm = 0.5,
       .ema_decay = 0.9,
       .on_nan = OnNonFinite::skip,
       .schedule = {.kind = LrSchedule::Kind::cosine, .updates = 4, .warmup = 1}}};
  for (const char* optimizer : {"momentum", "adamw"})
    for (const TrainingOptions& options : ways) {
      const Tiny tiny{.optimizer = optimizer, .noisy = true};
      const std::uint64_t whole =
          make_trainer(tiny, options)->run(serial_plan(), steps(kSteps)).digest;
      for (const std::uint64_t at : {1, 5, 8}) {
        const Plan before = plans()[at % 3];
        const Plan after = plans()[(at + 1) % 3];
        SCOPED_TRACE(std::string(optimizer) + ", accumulate " + std::to_string(options.accumulate) +
                     ", step " + std::to_string(at) + ", " + describe(after));
        const TemporaryFolder place;
        {
          const auto one = make_trainer(tiny, options);
          Checkpoints checkpoints({.folder = place.path()}, *one);
          one->run(before, steps(at));
          EXPECT_TRUE(checkpoints.save()) << checkpoints.problem();
        }
        const auto other =
            make_trainer({.seed = 1, .optimizer = optimizer, .noisy = true}, options);
        other->run(after, steps(2));
        ASSERT_EQ(load_latest_checkpoint(*other, place.path())->step, at);
        EXPECT_EQ(other->position(), at);
        EXPECT_EQ(other->run(after, steps(kSteps - at)).digest, whole);
      }
    }
}

TEST_F(CheckpointTest, CheckpointSavedDuringRunHoldsStateOfItsStep) {
  for (const Plan& plan : plans()) {
    SCOPED_TRACE(describe(plan));
    const TemporaryFolder place;
    const auto one = trainer({.noisy = true});
    {
      Checkpoints checkpoints({.folder = place.path(), .save_every = 4, .keep_last = 100}, *one);
      RunOptions options = steps(kSteps);
      checkpoints.save_during(options);
      // Gives the disk time: a checkpoint is skipped if the one before is still being written.
      options.progress = [](const Progress&) {
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
      };
      run_with(*one, plan, options, delayed(200, 3));
      EXPECT_EQ(checkpoints.problem(), "");
    }
    int found = 0;
    for (const std::uint64_t at : {4, 8, 12}) {
      const fs::path path = place.path() / ("step-" + std::string(at < 10 ? "0000000" : "000000") +
                                            std::to_string(at));
      if (!fs::exists(path)) continue;
      ++found;
      const auto loaded = trainer({.noisy = true}), reference = trainer({.noisy = true});
      load_checkpoint(*loaded, path);
      EXPECT_EQ(loaded->digest(), reference->run(serial_plan(), steps(at)).digest) << at;
    }
    EXPECT_GE(found, 1);
  }
}

TEST_F(CheckpointTest, SavingDoesNotChangeTheDigest) {
  const std::uint64_t alone = fresh_run({.noisy = true}, serial_plan(), steps(kSteps)).digest;
  for (const Plan& plan : plans()) {
    const TemporaryFolder place;
    const auto one = trainer({.noisy = true});
    Checkpoints checkpoints({.folder = place.path(), .save_every = 1}, *one);
    RunOptions options = steps(kSteps);
    checkpoints.save_during(options);
    EXPECT_EQ(run_with(*one, plan, options, delayed(200, 5)).digest, alone) << describe(plan);
  }
}

TEST_F(CheckpointTest, MeasurementRunsNeverRequestState) {
  const auto one = trainer({});
  RunOptions options = steps(2);
  options.cut = Cut{"collate", 1};
  options.wants_state = [](std::uint64_t) -> bool { throw std::runtime_error("asked"); };
  one->run(serial_plan(), options);
  options = steps(2);
  options.last_step = "encode";
  options.wants_state = [](std::uint64_t) -> bool { throw std::runtime_error("asked"); };
  one->run(serial_plan(), options);
}

TEST_F(CheckpointTest, LatestAndBestCheckpointsAreKept) {
  const auto one = trainer({});
  Checkpoints checkpoints({.folder = folder(), .keep_last = 2}, *one);
  for (int turn = 0; turn < 4; ++turn) {
    one->run(serial_plan(), steps(1));
    EXPECT_TRUE(checkpoints.save(CheckpointScore{"top1", 0.5, turn == 0}));
  }
  EXPECT_THAT(names(), testing::ElementsAre(".lock", "best", "last", "step-00000001",
                                            "step-00000003", "step-00000004"));
  EXPECT_EQ(fs::read_symlink(folder() / "last"), "step-00000004");
  EXPECT_EQ(fs::read_symlink(folder() / "best"), "step-00000001");
  const auto other = trainer({});
  EXPECT_EQ(load_checkpoint(*other, folder() / "best").step, 1U);
  EXPECT_EQ(load_latest_checkpoint(*other, folder())->best_step, 1U);
  EXPECT_EQ(load_latest_checkpoint(*other, folder())->best->metric, "top1");
}

TEST_F(CheckpointTest, LoadLatestSkipsDamagedCheckpoint) {
  for (const char* file : {"weights.safetensors", "training.safetensors", "checkpoint.json"}) {
    const TemporaryFolder place;
    const auto one = trainer({});
    {
      Checkpoints checkpoints({.folder = place.path()}, *one);
      one->run(serial_plan(), steps(2));
      checkpoints.save();
      one->run(serial_plan(), steps(2));
      checkpoints.save();
    }
    const fs::path latest = place.path() / "step-00000004";
    if (std::string(file) == "checkpoint.json")
      fs::resize_file(latest / file, 20);
    else
      flip_last_bit(latest / file);
    const auto other = trainer({});
    EXPECT_THAT(thrown_by([&] { load_checkpoint(*other, latest); }),
                AllOf(StartsWith("Refused: "), HasSubstr(file)));
    EXPECT_EQ(other->position(), 0U);
    const auto loaded = load_latest_checkpoint(*other, place.path());
    EXPECT_EQ(loaded->step, 2U);
    EXPECT_EQ(loaded->passed_over.size(), 1U);
  }
}

TEST_F(CheckpointTest, LoadLatestIsRefusedIfAllAreDamaged) {
  const auto one = trainer({});
  {
    Checkpoints checkpoints({.folder = folder()}, *one);
    one->run(serial_plan(), steps(1));
    checkpoints.save();
  }
  flip_last_bit(folder() / "step-00000001" / "weights.safetensors");
  EXPECT_THAT(thrown_by([&] { load_latest_checkpoint(*one, folder()); }),
              AllOf(StartsWith("Refused: no checkpoint"), HasSubstr("values are not those")));
}

TEST_F(CheckpointTest, CheckpointOfDifferentTrainingIsRefused) {
  const auto one = trainer({});
  {
    Checkpoints checkpoints({.folder = folder()}, *one);
    one->run(serial_plan(), steps(1));
    checkpoints.save();
  }
  const auto refused = [&](const Tiny& tiny, const TrainingOptions& options = {}) {
    const auto other = make_trainer(tiny, options);
    const std::string why = thrown_by([&] { load_latest_checkpoint(*other, folder()); });
    EXPECT_EQ(other->position(), 0U);
    EXPECT_THAT(why, StartsWith("Refused: "));
    return why;
  };
  EXPECT_THAT(refused({.classes = 7}), HasSubstr("head.weight (7 x 6 x 3 x 3 here, 5 x"));
  EXPECT_THAT(refused({.noisy = true}), HasSubstr("not in the file: norm.weight"));
  EXPECT_THAT(refused({.optimizer = "adamw"}), HasSubstr("another optimizer"));
  EXPECT_THAT(refused({}, {.ema_decay = 0.5}),
              HasSubstr("it was made with other training options"));
  EXPECT_THAT(refused({.seed = 2}), HasSubstr("seed 1, this training 2"));
  EXPECT_THAT(refused({.batch_size = 8}), HasSubstr("batch size 4, this training 8"));
  EXPECT_THAT(refused({.samples = 32}), HasSubstr("size 64, this training 32"));
}

/// Returns a trainer whose model has an additional buffer of that name.
std::unique_ptr<Trainer> with_tensor(Context& context, const std::string& name,
                                     const at::Tensor& tensor,
                                     const TrainingOptions& options = {}) {
  Pipeline pipeline = tiny_pipeline({.noisy = true}).with_training(options);
  pipeline.train_stage().module->register_buffer(name, tensor);
  return std::make_unique<Trainer>(std::move(pipeline), context, exact());
}

TEST_F(CheckpointTest, ExpandedBufferIsRestored) {
  const TrainingOptions options = {.ema_decay = 0.9, .on_nan = OnNonFinite::skip};
  const auto made = [&](float value) {
    return with_tensor(context(), "b", at::full({1}, value).expand({4}), options);
  };
  const auto whole = made(2);
  const std::uint64_t expected = whole->run(serial_plan(), steps(kSteps)).digest;
  {
    const auto one = made(2);
    Checkpoints checkpoints({.folder = folder()}, *one);
    one->run(serial_plan(), steps(5));
    EXPECT_TRUE(checkpoints.save()) << checkpoints.problem();
  }
  const auto other = made(3);
  ASSERT_EQ(load_latest_checkpoint(*other, folder())->step, 5U);
  EXPECT_EQ(other->run(serial_plan(), steps(kSteps - 5)).digest, expected);
  const State state = other->state();
  other->restore(state);
  EXPECT_EQ(other->digest(), expected);
}

TEST_F(CheckpointTest, DistinctValuesForExpandedBufferAreRefused) {
  if (on_gpu()) GTEST_SKIP() << "on a GPU each element has its own memory";
  {
    const auto one = with_tensor(context(), "b", at::arange(4, at::kFloat));
    Checkpoints checkpoints({.folder = folder()}, *one);
    EXPECT_TRUE(checkpoints.save());
  }
  const auto other = with_tensor(context(), "b", at::zeros({1}).expand({4}));
  const std::uint64_t before = other->digest();
  EXPECT_THAT(thrown_by([&] { load_latest_checkpoint(*other, folder()); }),
              AllOf(StartsWith("Refused: "), HasSubstr("'b' share memory")));
  EXPECT_EQ(other->digest(), before);
}

TEST_F(CheckpointTest, UnstorableTensorIsRefusedAtConstruction) {
  const auto refused = [&](const std::string& name, const at::Tensor& tensor) {
    const auto one = with_tensor(context(), name, tensor, {.ema_decay = 0.5});
    return thrown_by([&] { Checkpoints({.folder = folder()}, *one); });
  };
  EXPECT_THAT(
      refused("__metadata__", at::ones({2})),
      AllOf(StartsWith("Refused: this training cannot be saved"), HasSubstr("'__metadata__'")));
  EXPECT_THAT(refused("phase", at::ones({2}, at::kComplexFloat)),
              HasSubstr("'phase' is complex64"));
  EXPECT_FALSE(fs::exists(folder()));
}

TEST_F(CheckpointTest, DifferentBufferDtypeIsRefused) {
  {
    const auto one = with_tensor(context(), "b", at::ones({4}, at::kLong));
    Checkpoints checkpoints({.folder = folder()}, *one);
    EXPECT_TRUE(checkpoints.save());
  }
  for (const at::ScalarType type : {at::kFloat, at::kInt}) {
    const auto other = with_tensor(context(), "b", at::ones({4}, type));
    EXPECT_THAT(thrown_by([&] { load_latest_checkpoint(*other, folder()); }),
                AllOf(StartsWith("Refused: "), HasSubstr("of another dtype"),
                      HasSubstr(" here, int64 there)")));
  }
}

TEST_F(CheckpointTest, LoadLatestWithoutCheckpointReturnsNothingAndLoadThrows) {
  const auto one = trainer({});
  EXPECT_FALSE(load_latest_checkpoint(*one, folder()));
  EXPECT_THAT(thrown_by([&] { load_checkpoint(*one, folder()); }),
              HasSubstr("there is no checkpoint at"));
}

TEST_F(CheckpointTest, FailedSaveReportsProblemAndNextSaveSucceeds) {
  const auto one = trainer({});
  Checkpoints checkpoints({.folder = folder()}, *one);
  one->run(serial_plan(), steps(1));
  fs::remove(folder() / ".lock");
  fs::remove(folder());
  std::ofstream(folder()) << "a file";
  EXPECT_FALSE(checkpoints.save());
  EXPECT_THAT(checkpoints.problem(),
              AllOf(StartsWith("the checkpoint of step 1: "), HasSubstr(folder().string())));
  EXPECT_EQ(checkpoints.problem(), "");
  fs::remove(folder());
  EXPECT_TRUE(checkpoints.save()) << checkpoints.problem();
  EXPECT_EQ(load_latest_checkpoint(*one, folder())->step, 1U);
}

TEST_F(CheckpointTest, SecondCheckpointsObjectForSameFolderIsRefused) {
  const auto one = trainer({});
  const Checkpoints checkpoints({.folder = folder()}, *one);
  EXPECT_THAT(thrown_by([&] { Checkpoints({.folder = folder()}, *one); }),
              AllOf(StartsWith("Refused: another run"), HasSubstr(folder().string())));
}

TEST_F(CheckpointTest, NonFiniteLossIsNotSavedAndLastGoodCheckpointLoads) {
  Tiny tiny;
  tiny.loss = [](const at::Tensor& output, const Batch& batch) {
    return output.square().mean() * (batch.number() == 6 ? NAN : 1.0);
  };
  for (const Plan& plan : plans()) {
    const TemporaryFolder place;
    const auto one = trainer(tiny);
    {
      Checkpoints checkpoints({.folder = place.path(), .save_every = 1, .keep_last = 100}, *one);
      RunOptions options = steps(kSteps);
      checkpoints.save_during(options);
      EXPECT_THAT(thrown_by([&] { one->run(plan, options); }), HasSubstr("the loss is NaN"));
      EXPECT_FALSE(checkpoints.save());
      EXPECT_THAT(checkpoints.problem(), HasSubstr("not finite"));
    }
    const auto other = trainer(tiny);
    const auto loaded = load_latest_checkpoint(*other, place.path());
    ASSERT_TRUE(loaded);
    EXPECT_LE(loaded->step, 6U);
    for (const at::Tensor& each : other->pipeline().train_stage().module->parameters())
      EXPECT_TRUE(each.isfinite().all().item<bool>());
  }
}

}  // namespace
}  // namespace slipstream::test
