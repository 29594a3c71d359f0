#include <gmock/gmock.h>

#include "engine/engine.h"
#include "slipstream/cli/workload.h"

namespace slipstream::test {
namespace {

class LongRunTest : public EngineTest {};

constexpr std::uint64_t kLong = 1000;

class WorkloadRun {
 public:
  explicit WorkloadRun(std::size_t batch_size, const std::string& optimizer) {
    options_.batch_size = batch_size;
    options_.give("optimizer", optimizer);
    options_.give("image-size", 64);
  }

  RunResult run(Context& context, const std::string& mode, Driver driver, double lane_delay_us) {
    Pipeline declared = make_pipeline(built_in_workloads(), "segmentation", options_);
    Plan plan =
        make_plan(mode, declared.device_steps(), context.kind(), {{.num_workers = 8}}, exact());
    plan.schedule.driver = driver;
    Trainer trainer(std::move(declared), context, plan.numerics);
    return run_with(trainer, plan, steps(kLong), delayed(lane_delay_us, options_.batch_size));
  }

 private:
  Options options_ = find_options(built_in_workloads(), "segmentation");
};

TEST_F(LongRunTest, PipelinedSegmentationMatchesSerialFor1000Steps) {
  for (std::size_t batch_size : {8, 32})
    for (const char* optimizer : {"sgd", "adamw"}) {
      WorkloadRun w1(batch_size, optimizer);
      const RunResult serial = w1.run(context(), "serial", Driver::interleaved, 0);
      for (const Driver driver : {Driver::interleaved, Driver::threaded}) {
        SCOPED_TRACE(std::string(optimizer) + ", batch size and delay seed " +
                     std::to_string(batch_size));
        const RunResult result = w1.run(context(), "pipelined", driver, 300);
        EXPECT_EQ(result.losses, serial.losses);
        EXPECT_EQ(result.digest, serial.digest);
      }
    }
}

TEST_F(LongRunTest, ReservedMemoryDoesNotGrowFor10000Steps) {
  for (const Driver driver : {Driver::interleaved, Driver::threaded}) {
    const MemoryResult memory =
        fresh_run({}, build_plan(kThreeLanes, driver, 4), steps(10'000)).memory;
    EXPECT_GT(memory.reserved_after_warm_up_bytes, 0U);
    EXPECT_EQ(memory.reserved_bytes, memory.reserved_after_warm_up_bytes);
  }
}

}  // namespace
}  // namespace slipstream::test
