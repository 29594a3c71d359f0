#include <gtest/gtest.h>

#include "gpu.h"
#include "slipstream/run/pipeline.h"
#include "slipstream/run/trainer.h"
#include "slipstream/workloads/workload.h"

namespace slipstream::test {

/// "cpu" or "cuda": the same test bodies are linked into one program for each.
extern const char* const kDevice;

namespace {

class StarvedBitsTest : public testing::Test {
 protected:
  void SetUp() override {
    if (std::string_view(kDevice) == "cuda") require_gpu();
  }

  static std::uint64_t digest(const std::string& transforms, const std::string& mode,
                              const std::string& augment, double momentum = 0.9) {
    Options options = options_of(built_in_workloads(), "starved");
    options.batch_size = 4;
    options.give("image-size", 12);
    options.give("momentum", momentum);
    options.give("transforms", transforms);
    Context context(kDevice);
    Pipeline pipeline = make_pipeline(built_in_workloads(), "starved", options);
    Plan::Numerics numerics;
    numerics.deterministic = true;
    numerics.cudnn_benchmark = false;
    const Plan plan =
        placed_plan(pipeline, mode, augment, context.kind(), {.workers = 3}, numerics);
    Trainer trainer(std::move(pipeline), context, plan.numerics);
    RunOptions run;
    run.steps = 4;
    return trainer.run(plan, run).digest;
  }
};

TEST_F(StarvedBitsTest, EveryPlanPlaceAndFormTrainsTheSame) {
  const std::uint64_t plain = digest("plain", "serial", "cpu");
  EXPECT_EQ(digest("plain", "pipelined", "cpu"), plain);
  for (const char* mode : {"serial", "pipelined"})
    for (const char* augment : {"cpu", "gpu", "pipelined"})
      EXPECT_EQ(digest("optimized", mode, augment), plain) << mode << ", " << augment;
  EXPECT_NE(digest("plain", "serial", "cpu", 0.5), plain);
}

}  // namespace
}  // namespace slipstream::test
