#include <gtest/gtest.h>

#include "gpu.h"
#include "slipstream/cli/workload.h"
#include "slipstream/engine/trainer.h"

namespace slipstream::test {

/// "cpu" or "cuda": the same tests are linked into one program for each device.
extern const char* const kDevice;

namespace {

class StarvedBitsTest : public testing::Test {
 protected:
  void SetUp() override {
    if (std::string_view(kDevice) == "cuda") require_gpu();
  }

  static std::uint64_t digest(bool is_optimized, const std::string& mode,
                              const std::string& transforms_device, double momentum = 0.9) {
    Options options = find_options(built_in_workloads(), "starved");
    options.batch_size = 4;
    options.give("image-size", 12);
    options.give("momentum", momentum);
    if (is_optimized) options.give("optimized-transforms", true);
    Context context(kDevice);
    Pipeline pipeline = make_pipeline(built_in_workloads(), "starved", options);
    Plan::Numerics numerics;
    numerics.deterministic = true;
    numerics.cudnn_benchmark = false;
    const Plan plan = placed_plan(pipeline, mode, transforms_device, context.kind(),
                                  {{.num_workers = 3}}, numerics);
    Trainer trainer(std::move(pipeline), context, plan.numerics);
    RunOptions run;
    run.steps = 2;  // momentum has an effect from the second step
    return trainer.run(plan, run).digest;
  }
};

TEST_F(StarvedBitsTest, PlansDevicesAndOptimizedTransformsGiveTheSameDigest) {
  const std::uint64_t plain = digest(false, "serial", "cpu");
  EXPECT_EQ(digest(false, "pipelined", "cpu"), plain);
  for (const char* mode : {"serial", "pipelined"})
    for (const char* device : {"cpu", "cuda"})
      EXPECT_EQ(digest(true, mode, device), plain) << mode << ", " << device;
  EXPECT_NE(digest(false, "serial", "cpu", 0.5), plain);
}

}  // namespace
}  // namespace slipstream::test
