#include <gtest/gtest.h>

#include "gpu.h"
#include "slipstream/cli/workload.h"
#include "slipstream/engine/trainer.h"

namespace slipstream::test {

/// "cpu" or "cuda": the same tests are linked into one program for each device.
extern const char* const kDevice;

namespace {

class ClassificationBitsTest : public testing::Test {
 protected:
  void SetUp() override {
    if (std::string_view(kDevice) == "cuda") require_gpu();
  }

  static std::uint64_t digest(const std::string& model, const std::string& mode,
                              const std::string& augment, bool channels_last = true) {
    Options options = find_options(built_in_workloads(), "classification");
    options.batch_size = 4;
    options.give("image-size", 64);
    options.give("model", model);
    Context context(kDevice);
    Pipeline pipeline = make_pipeline(built_in_workloads(), "classification", options);
    Plan::Numerics numerics;
    numerics.deterministic = true;
    numerics.cudnn_benchmark = false;
    numerics.channels_last = channels_last;
    const Plan plan =
        placed_plan(pipeline, mode, augment, context.kind(), {{.num_workers = 2}}, numerics);
    Trainer trainer(std::move(pipeline), context, plan.numerics);
    RunOptions run;
    run.steps = 3;
    return trainer.run(plan, run).digest;
  }
};

TEST_F(ClassificationBitsTest, PipelinedResNet18GivesTheSerialDigest) {
  const std::uint64_t serial = digest("resnet18", "serial", "cpu");
  EXPECT_EQ(digest("resnet18", "serial", "cpu"), serial);
  EXPECT_EQ(digest("resnet18", "pipelined", "cpu"), serial);
  EXPECT_EQ(digest("resnet18", "pipelined", "cuda"), serial);
  EXPECT_EQ(digest("resnet18", "pipelined", "cpu", false),
            digest("resnet18", "serial", "cpu", false));
}

TEST_F(ClassificationBitsTest, PipelinedResNet50GivesTheSerialDigest) {
  EXPECT_EQ(digest("resnet50", "pipelined", "cpu"), digest("resnet50", "serial", "cpu"));
}

}  // namespace
}  // namespace slipstream::test
