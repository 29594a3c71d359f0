#include "slipstream/engine/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace slipstream {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

const std::vector<std::string> kSteps = {"copy", "encode", "decode"};

Plan plan_for(const std::string& mode, DeviceKind device) {
  return make_plan(mode, kSteps, device, {{.num_workers = 8}}, {});
}

std::vector<std::string> cuda_problems(const Plan& plan) {
  return find_problems(plan, kSteps, DeviceKind::cuda);
}

std::string refusal(std::string_view json) {
  try {
    parse_plan(json);
  } catch (const Refused& refused) {
    return refused.what();
  }
  return "not refused";
}

TEST(MakePlan, SerialIsOneLaneWithTrainingPriority) {
  const Plan plan = plan_for("serial", DeviceKind::cuda);
  ASSERT_EQ(plan.schedule.lanes.size(), 1u);
  EXPECT_EQ(plan.schedule.lanes[0].steps, kSteps);
  EXPECT_EQ(plan.schedule.lanes[0].priority,
            plan_for("pipelined", DeviceKind::cuda).schedule.lanes.back().priority);
  EXPECT_EQ(plan.schedule.depth, 1u);
  EXPECT_EQ(plan.schedule.driver, Driver::threaded);
  EXPECT_TRUE(plan.schedule.loader.pin_memory);
}

TEST(MakePlan, PipelinedHasOneLanePerStepAndHighestPriorityForTraining) {
  const Plan plan = plan_for("pipelined", DeviceKind::cuda);
  ASSERT_EQ(plan.schedule.lanes.size(), 3u);
  for (std::size_t i = 0; i < 3; ++i)
    EXPECT_THAT(plan.schedule.lanes[i].steps, ElementsAre(kSteps[i]));
  EXPECT_GT(plan.schedule.lanes[2].priority, plan.schedule.lanes[0].priority);
  EXPECT_EQ(plan.schedule.depth, 4u);
  EXPECT_EQ(plan.schedule.loader.num_workers, 8u);
  EXPECT_EQ(plan.schedule.driver, Driver::threaded);
}

TEST(MakePlan, CpuPlanIsThreadedAndDeterministic) {
  const Plan plan = plan_for("pipelined", DeviceKind::cpu);
  EXPECT_EQ(plan.schedule.driver, Driver::threaded);
  EXPECT_EQ(plan.schedule.depth, 3u);
  EXPECT_FALSE(plan.schedule.loader.pin_memory);
  EXPECT_TRUE(plan.numerics.deterministic);
  EXPECT_FALSE(plan.numerics.cudnn_benchmark);
  EXPECT_EQ(plan_for("serial", DeviceKind::cpu).schedule.driver, Driver::threaded);
}

TEST(MakePlan, DeterministicDisablesCudnnBenchmark) {
  Plan::Numerics numerics;
  numerics.deterministic = true;
  EXPECT_FALSE(make_plan("serial", kSteps, DeviceKind::cuda, {{.num_workers = 1}}, numerics)
                   .numerics.cudnn_benchmark);
  EXPECT_TRUE(plan_for("serial", DeviceKind::cuda).numerics.cudnn_benchmark);
}

TEST(MakePlan, UnknownPlanMessageListsModesAndOtherNames) {
  EXPECT_TRUE(is_plan_mode("serial"));
  EXPECT_TRUE(is_plan_mode("pipelined"));
  EXPECT_TRUE(is_plan_mode("graph"));
  EXPECT_FALSE(is_plan_mode("auto"));
  EXPECT_FALSE(is_plan_mode("Serial"));
  EXPECT_EQ(unknown_plan("zzz"), "unknown plan 'zzz'; known: serial, pipelined, graph");
  EXPECT_EQ(unknown_plan("zzz", {"auto"}),
            "unknown plan 'zzz'; known: auto, serial, pipelined, graph");
}

TEST(MakePlan, UnknownModeIsRefusedWithSuggestion) {
  EXPECT_THROW(plan_for("auto", DeviceKind::cuda), Refused);
  try {
    plan_for("pipelned", DeviceKind::cuda);
    FAIL();
  } catch (const Refused& refused) {
    EXPECT_THAT(refused.what(), HasSubstr("did you mean 'pipelined'?"));
  }
}

TEST(MakePlan, EveryModeDeviceAndPrecisionGivesValidPlan) {
  for (const char* mode : {"serial", "pipelined", "graph"}) {
    for (const DeviceKind device : {DeviceKind::cpu, DeviceKind::cuda}) {
      for (const Precision precision :
           {Precision::tf32, Precision::fp32, Precision::bf16, Precision::fp16}) {
        Plan plan = plan_for(mode, device);
        plan.numerics.precision = precision;
        EXPECT_THAT(find_problems(plan, kSteps, device), IsEmpty());
        EXPECT_EQ(parse_plan(to_json_text(plan)), plan);
      }
    }
  }
}

TEST(MakePlan, GraphPlanHasTheLanesOfPipelinedAndOnCpuNoGraphs) {
  Plan expected = plan_for("pipelined", DeviceKind::cuda);
  expected.schedule.mode = "graph";
  expected.schedule.graphs = true;
  EXPECT_EQ(plan_for("graph", DeviceKind::cuda), expected);
  EXPECT_EQ(plan_for("graph", DeviceKind::cpu), plan_for("pipelined", DeviceKind::cpu));
}

TEST(FindProblems, GraphsNeedGpu) {
  Plan plan = plan_for("pipelined", DeviceKind::cpu);
  plan.schedule.graphs = true;
  EXPECT_THAT(find_problems(plan, kSteps, DeviceKind::cpu),
              ElementsAre("schedule.graphs is on, but only a GPU has CUDA graphs; turn it off"));
}

TEST(FindProblems, LanesMustContainEveryStepOnceInOrder) {
  Plan plan = plan_for("pipelined", DeviceKind::cuda);
  plan.schedule.lanes = {{{"copy", "encodr"}, 0}, {{"copy"}, -1}, {{}, 0}};
  EXPECT_THAT(
      cuda_problems(plan),
      ElementsAre("schedule.lanes[0].steps: unknown step 'encodr'; did you mean 'encode'? known: "
                  "copy, encode, decode",
                  "schedule.lanes[1].priority is -1; use 0 (lowest) or more",
                  "schedule.lanes[1].steps: step 'copy' is listed twice; name each step once",
                  "schedule.lanes[2] has no steps; remove the lane or give it steps",
                  "schedule.lanes: step 'encode' is missing; put it on a lane (the steps are copy, "
                  "encode, decode)",
                  "schedule.lanes: step 'decode' is missing; put it on a lane (the steps are copy, "
                  "encode, decode)"));
  plan.schedule.lanes = {{{"copy"}, 0}, {{"decode", "encode"}, 0}};
  EXPECT_THAT(cuda_problems(plan),
              ElementsAre("schedule.lanes: the steps are in the order copy, decode, encode; lanes "
                          "must list them in the pipeline's order: copy, encode, decode"));
}

TEST(FindProblems, DepthMustBeAtLeastNumberOfLanes) {
  Plan plan = plan_for("pipelined", DeviceKind::cuda);
  plan.schedule.depth = 2;
  EXPECT_THAT(
      cuda_problems(plan),
      ElementsAre("schedule.depth is 2 but there are 3 lanes, and each needs a separate slot; "
                  "use 3 or more"));
  plan.schedule.depth = 3;
  EXPECT_THAT(cuda_problems(plan), IsEmpty());
}

TEST(FindProblems, CountsMustBeFrom1To4096) {
  Plan plan = plan_for("serial", DeviceKind::cuda);
  plan.schedule.depth = 0;
  plan.schedule.run_ahead = 0;
  plan.schedule.loader.num_workers = 5000;
  plan.schedule.loader.prefetch_batches = SIZE_MAX;
  EXPECT_THAT(
      cuda_problems(plan),
      ElementsAre("schedule.depth is 0; use 1 to 4096", "schedule.run_ahead is 0; use 1 to 4096",
                  "schedule.loader.num_workers is 5000; use 1 to 4096",
                  "schedule.loader.prefetch_batches is 18446744073709551615; use 1 to 4096"));
}

TEST(FindProblems, ModeMustMatchLanes) {
  Plan plan = plan_for("pipelined", DeviceKind::cuda);
  plan.schedule.mode = "serial";
  EXPECT_THAT(cuda_problems(plan),
              ElementsAre("schedule.mode is serial but there are 3 lanes; put all steps on one "
                          "lane, or use mode pipelined"));
  plan.schedule.mode = "Pipelined";
  EXPECT_THAT(cuda_problems(plan),
              ElementsAre("schedule.mode: unknown plan 'Pipelined'; did you mean 'pipelined'? "
                          "known: serial, pipelined, graph"));
}

TEST(FindProblems, DeterministicWithCudnnBenchmarkIsReported) {
  Plan plan = plan_for("serial", DeviceKind::cuda);
  plan.numerics.deterministic = true;
  EXPECT_THAT(cuda_problems(plan), ElementsAre(HasSubstr("turn one of them off")));
}

TEST(FindProblems, IntraOpThreadsMustNameEveryStageAndBeFrom1To256) {
  Plan plan = plan_for("serial", DeviceKind::cpu);
  plan.numerics.intra_op_threads = {{"copy", 256}, {"decod", 1}, {"encode", 0}, {"decode", 257}};
  EXPECT_THAT(find_problems(plan, kSteps, DeviceKind::cpu),
              UnorderedElementsAre("numerics.intra_op_threads: unknown stage 'decod'; did you mean "
                                   "'decode'? known: copy, encode, decode, *",
                                   "numerics.intra_op_threads.encode is 0; use 1 to 256",
                                   "numerics.intra_op_threads.decode is 257; use 1 to 256"));
  plan.numerics.intra_op_threads = {{"encode", 1}};
  EXPECT_THAT(find_problems(plan, kSteps, DeviceKind::cpu),
              ElementsAre("numerics.intra_op_threads has no value for copy, decode; add \"*\" for "
                          "every stage that is not named"));
}

TEST(FindProblems, CpuPlanMustBeDeterministicAndUnpinned) {
  const Plan plan = plan_for("pipelined", DeviceKind::cuda);
  EXPECT_THAT(find_problems(plan, kSteps, DeviceKind::cpu),
              ElementsAre(HasSubstr("numerics.deterministic is off"),
                          HasSubstr("schedule.loader.pin_memory is on")));
}

TEST(FindProblems, InterleavedDriverIsAllowedForCpuLanes) {
  Plan plan = plan_for("pipelined", DeviceKind::cpu);
  plan.schedule.driver = Driver::interleaved;
  EXPECT_THAT(find_problems(plan, kSteps, DeviceKind::cpu), IsEmpty());
}

TEST(FindProblems, ExactWireFormatsBelongToScheduleAndRoundingOnesToNumerics) {
  Plan plan = plan_for("serial", DeviceKind::cuda);
  plan.schedule.loader.wire = {{"mask", Wire::bits}, {"image", Wire::bf16}};
  plan.numerics.wire = {{"x", Wire::fp16}, {"label", Wire::smallest}, {"mask", Wire::fp16}};
  EXPECT_THAT(
      cuda_problems(plan),
      ElementsAre("schedule.loader.wire.image: bf16 changes values; put it under numerics.wire",
                  "numerics.wire.label: smallest is exact; put it under schedule.loader.wire",
                  "schedule.loader.wire and numerics.wire both name 'mask'; choose one format for "
                  "it"));
}

TEST(FindProblems, JpegWireRequiresGpuAndNumericsSection) {
  Plan plan = plan_for("serial", DeviceKind::cuda);
  plan.numerics.wire = {{"image", Wire::jpeg}};
  EXPECT_THAT(cuda_problems(plan), IsEmpty());
  Plan on_cpu = plan_for("serial", DeviceKind::cpu);
  on_cpu.numerics.wire = plan.numerics.wire;
  EXPECT_THAT(
      find_problems(on_cpu, kSteps, DeviceKind::cpu),
      ElementsAre("numerics.wire.image is jpeg, but only a GPU decodes files; leave out this "
                  "wire format"));
  plan.schedule.loader.wire = std::exchange(plan.numerics.wire, {});
  EXPECT_THAT(cuda_problems(plan),
              ElementsAre("schedule.loader.wire.image: jpeg changes values; put it under "
                          "numerics.wire"));
}

TEST(Validate, ThrowsWithAllProblems) {
  Plan plan = plan_for("pipelined", DeviceKind::cuda);
  EXPECT_NO_THROW(validate(plan, kSteps, DeviceKind::cuda));
  plan.schedule.depth = 1;
  plan.schedule.loader.num_workers = 0;
  try {
    validate(plan, kSteps, DeviceKind::cuda);
    FAIL();
  } catch (const Refused& refused) {
    EXPECT_THAT(refused.what(), HasSubstr("\n  schedule.depth is 1"));
    EXPECT_THAT(refused.what(), HasSubstr("\n  schedule.loader.num_workers is 0"));
  }
}

TEST(PlanJson, WritesTheDocumentedLayout) {
  Plan plan = plan_for("pipelined", DeviceKind::cuda);
  plan.numerics.intra_op_threads = {{"*", 1}, {"decode", 2}};
  plan.schedule.loader.wire = {{"label", Wire::smallest}};
  plan.schedule.loader.cpus = {0, 1, 4};
  plan.schedule.loader.cache = CacheOptions{.after = "decode", .bytes = 1000};
  plan.numerics.wire = {{"image", Wire::bf16}};
  EXPECT_EQ(to_json_text(plan), R"({
  "version": 1,
  "schedule": {
    "mode": "pipelined",
    "lanes": [
      {
        "steps": [
          "copy"
        ],
        "priority": 0
      },
      {
        "steps": [
          "encode"
        ],
        "priority": 0
      },
      {
        "steps": [
          "decode"
        ],
        "priority": 2
      }
    ],
    "depth": 4,
    "run_ahead": 2,
    "driver": "threaded",
    "graphs": false,
    "loader": {
      "num_workers": 8,
      "prefetch_batches": 4,
      "pin_memory": true,
      "wire": {
        "label": "smallest"
      },
      "read_ahead": {
        "reads": 0,
        "chunk_bytes": 0
      },
      "cpus": "0-1,4",
      "cache": {
        "after": "decode",
        "bytes": 1000
      },
      "on_device": ""
    }
  },
  "numerics": {
    "precision": "tf32",
    "channels_last": true,
    "deterministic": false,
    "cudnn_benchmark": true,
    "intra_op_threads": {
      "*": 1,
      "decode": 2
    },
    "wire": {
      "image": "bf16"
    },
    "scaled_decoding": false
  }
}
)");
}

TEST(PlanJson, EveryFieldRoundTrips) {
  Plan plan;
  plan.schedule = {"serial",
                   {{{"a", "b\n\"\xc3\xa9"}, -3}},
                   SIZE_MAX,
                   9,
                   Driver::threaded,
                   true,
                   {{7,
                     5,
                     {{"mask", Wire::bits}, {"path", Wire::host}},
                     {9, 1 << 20},
                     {3, 5},
                     CacheOptions{.after = "a", .bytes = SIZE_MAX}},
                    false}};
  plan.numerics = {Precision::bf16, false, true, false, {}, {{"image", Wire::fp16}}, true};
  EXPECT_EQ(parse_plan(to_json_text(plan)), plan);
}

TEST(PlanJson, AllKeysExceptLanesAreOptional) {
  const Plan plan = parse_plan(R"({"schedule": {"lanes": [{"steps": ["copy"]}]}})");
  Plan expected;
  expected.schedule.lanes = {{{"copy"}, 0}};
  EXPECT_EQ(plan, expected);
  const char* const missing = "schedule.lanes is missing: list the steps of each lane";
  EXPECT_THAT(refusal("{}"), HasSubstr(missing));
  EXPECT_THAT(refusal(R"({"schedule": {}})"), HasSubstr(missing));
}

TEST(PlanJson, OtherVersionIsRefused) {
  EXPECT_THAT(refusal(R"({"version": 2, "schedule": {"lanes": []}})"),
              HasSubstr("version is 2; this program reads version 1"));
}

TEST(PlanJson, AllProblemsAreReportedWithTheirPaths) {
  EXPECT_EQ(refusal(R"({"verson": 1, "schedule": {"lanes": [{"step": [], "priority": 0.5},
                {"steps": "copy"}, 3], "depth": -1, "driver": "threadd", "num_workers": 1,
                "loader": {"num_workers": 4294967296, "pin_memory": 1, "wire": {"mask": "bit"},
                "read_ahead": {"reads": -1}, "cpus": "3-", "cache": {"bytes": 0.5}}},
                "numerics": {"precision": "fp64", "intra_op_threads": {"*": true}, "cudnn_benchmark": {}}})"),
            R"(this plan cannot be read:
  schedule.lanes[0].priority must be a small whole number, not 0.5
  schedule.lanes[0].step: unknown key 'step'; did you mean 'steps'? known: steps, priority
  schedule.lanes[1].steps must be a list, not "copy"
  schedule.lanes[2] must be an object, not 3
  schedule.depth must be a whole number from 1 to 4096, not -1
  schedule.driver: unknown driver 'threadd'; did you mean 'threaded'? known: interleaved, threaded
  schedule.loader.num_workers must be a whole number from 1 to 4096, not 4294967296
  schedule.loader.pin_memory must be true or false, not 1
  schedule.loader.wire.mask: unknown wire format 'bit'; did you mean 'bits'? known: plain, smallest, bits, one_hot, bf16, fp16, jpeg, host
  schedule.loader.read_ahead.reads must be a whole number that is at least 0, not -1
  schedule.loader.cpus: '3-' is not a list of CPUs: '' is not a number; write numbers and ranges, such as 0-3,8
  schedule.loader.cache.bytes must be a whole number that is at least 0, not 0.5
  schedule.num_workers: unknown key 'num_workers'; known: mode, lanes, depth, run_ahead, driver, graphs, loader
  numerics.precision: unknown precision 'fp64'; known: tf32, fp32, bf16, fp16
  numerics.cudnn_benchmark must be true or false, not an object
  numerics.intra_op_threads.* must be a whole number from 1 to 256, not true
  verson: unknown key 'verson'; did you mean 'version'? known: version, schedule, numerics)");
}

TEST(PlanJson, PrefetchFactorKeySuggestsPrefetchBatches) {
  EXPECT_THAT(
      refusal(R"({"schedule": {"lanes": [], "loader": {"prefetch_factor": 2}}})"),
      testing::AllOf(HasSubstr("unknown key 'prefetch_factor'; did you mean 'prefetch_batches'?"),
                     HasSubstr("is the number for all workers together: PyTorch's prefetch_factor "
                               "times num_workers")));
}

TEST(PlanJson, InvalidOrDeeplyNestedJsonIsRefused) {
  for (const char* text : {"", "{", "plan", "1e999", "{\"schedule\": nope}", "\xff\xfe"})
    EXPECT_THAT(refusal(text), HasSubstr("this plan must be JSON: ")) << text;
  EXPECT_THAT(refusal("[]"), HasSubstr("this plan must be an object, not a list of 0"));
  const std::string deep = std::string(1'000'000, '[') + std::string(1'000'000, ']');
  EXPECT_THAT(refusal("{\"schedule\": " + deep + "}"), HasSubstr("nested too deeply"));
  EXPECT_THAT(refusal("{\"lanes\": " + deep + ", \"a\": 1, \"b\": 2, \"c\": 3}"),
              HasSubstr("nested too deeply"));
}

TEST(PlanJson, DuplicateKeyIsRefused) {
  EXPECT_THAT(refusal(R"({"schedule": {"lanes": [], "depth": 1, "depth": 2}})"),
              HasSubstr("this plan cannot be read: the key 'depth' occurs twice in one object"));
}

TEST(PrecisionNames, RoundTripAndUnknownNameIsRefused) {
  for (const Precision precision :
       {Precision::tf32, Precision::fp32, Precision::bf16, Precision::fp16})
    EXPECT_EQ(precision_named(std::string(to_string(precision))), precision);
  EXPECT_THROW(precision_named("fp8"), Refused);
}

}  // namespace
}  // namespace slipstream
