#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "doctor/model_parts.h"
#include "doctor/observed.h"

namespace slipstream {
namespace {

TEST(Changes, WaitingReadsProposeReadAheadAndMoreWorkers) {
  PipelineModel model = usual_model();
  model.steps[0] = make_step("read", Bottleneck::read, 60e-3, 0);
  const Diagnosis diagnosis = diagnose(make_observations(model));
  EXPECT_EQ(diagnosis.verdict, Bottleneck::read);
  ASSERT_NE(find(diagnosis, "read_ahead"), nullptr);
  ASSERT_NE(find(diagnosis, "num_workers"), nullptr);
  EXPECT_GT(find(diagnosis, "num_workers")->gain.value, 3);
}

TEST(Changes, OnlyOccasionalSlowSamplesProposePrefetchBatches) {
  PipelineModel model = usual_model();
  model.slabs = 2;
  model.line_waiting_s = 0.04;
  model.steps[1].working_s.assign(960, 1e-3F);
  model.steps[1].waiting_s.assign(960, 0.0F);
  for (std::size_t i = 0; i < 960; i += 240) model.steps[1].waiting_s[i] = 0.3F;
  const Observations observed = make_observations(model);
  const Diagnosis diagnosis = diagnose(observed);
  const Change* change = find(diagnosis, "prefetch_batches");
  ASSERT_NE(change, nullptr);
  Plan plan = observed.situation.plan;
  change->apply(plan);
  PipelineModel deeper = model;
  deeper.slabs += plan.schedule.loader.prefetch_batches -
                  observed.situation.plan.schedule.loader.prefetch_batches;
  ASSERT_GT(deeper.slabs, model.slabs);
  const double truth = 1 / simulated_step_s(deeper);
  EXPECT_LE(change->predicted.low, truth);
  EXPECT_GE(change->predicted.high, truth);
  model.steps[1].waiting_s.assign(960, 0.0F);
  EXPECT_EQ(find(diagnose(make_observations(model)), "prefetch_batches"), nullptr)
      << "all samples take the same time";
}

TEST(Changes, ReadingThatUsesCpuProposesSmallerSamples) {
  PipelineModel model = usual_model();
  model.line_waiting_s = 0.002;
  model.steps[0] = make_step("read", Bottleneck::read, 0, 8e-3);
  const Diagnosis diagnosis = diagnose(make_observations(model));
  const Change* change = find(diagnosis, "smaller_samples");
  ASSERT_NE(change, nullptr);
  EXPECT_EQ(change->bottleneck, Bottleneck::read);
  EXPECT_TRUE(change->is_upper_bound);
  make_free(model.steps[0]);
  EXPECT_NEAR(change->predicted.value, 1 / simulated_step_s(model), 0.05 / simulated_step_s(model));
}

TEST(Changes, EarlierCropSavesOnlyTransformsThatItMovesBefore) {
  PipelineModel model = usual_model();
  model.steps[2] = make_step("resize", Bottleneck::transforms, 0, 20e-3);
  model.steps[3] = make_step("normalize", Bottleneck::transforms, 0, 20e-3);
  model.steps.insert(model.steps.begin() + 4, make_step("crop", Bottleneck::transforms, 0, 1e-3));
  Observations observed = make_observations(model);
  observed.situation.crop = "crop";
  observed.situation.crop_moved_before = "normalize";
  const Diagnosis diagnosis = diagnose(observed);
  const Change* change = find(diagnosis, "crop_first");
  ASSERT_NE(change, nullptr);
  EXPECT_EQ(change->description,
            "move 'crop' before 'normalize', which needs no pixels outside the crop");
  EXPECT_TRUE(change->is_upper_bound);
  make_free(model.steps[3]);
  EXPECT_NEAR(change->predicted.value, 1 / simulated_step_s(model), 0.05 / simulated_step_s(model));
  observed.situation.crop_moved_before = "";
  EXPECT_EQ(find(diagnose(observed), "crop_first"), nullptr);
}

TEST(Changes, CacheIsProposedAfterLastFixedStepIfItFitsInMemory) {
  PipelineModel model = usual_model();
  model.steps[1] = make_step("decode", Bottleneck::decode, 0, 50e-3);
  Observations observed = make_observations(model);
  const Diagnosis diagnosis = diagnose(observed);
  const Change* cache = find(diagnosis, "cache");
  ASSERT_NE(cache, nullptr);
  Plan plan;
  cache->apply(plan);
  EXPECT_EQ(plan.schedule.loader.cache->after, "decode");
  EXPECT_GE(plan.schedule.loader.cache->bytes, 1000U << 16);
  observed.situation.free_memory_bytes = 1 << 20;
  EXPECT_EQ(find(diagnose(observed), "cache"), nullptr);
}

Plan with_device_transforms(const std::vector<LanePlan>& lanes) {
  Plan plan;
  plan.schedule.lanes = lanes;
  plan.schedule.depth = 4;
  put_transforms_on_device(plan, "crop");
  return plan;
}

TEST(Changes, DeviceTransformsRunDirectlyAfterCopy) {
  using Steps = std::vector<std::string>;
  const Plan apart = with_device_transforms({{{"copy"}, 0}, {{"train"}, 2}});
  ASSERT_EQ(apart.schedule.lanes.size(), 3U);
  EXPECT_EQ(apart.schedule.lanes[1].steps, Steps{"augment"});
  EXPECT_EQ(apart.schedule.depth, 5U);
  EXPECT_EQ(apart.schedule.loader.on_device, "crop");
  const Plan serial = with_device_transforms({{{"copy", "mix", "train"}, 0}});
  EXPECT_EQ(serial.schedule.lanes[0].steps, (Steps{"copy", "augment", "mix", "train"}));
  const Plan joined = with_device_transforms({{{"copy", "encode"}, 0}, {{"train"}, 2}});
  EXPECT_EQ(joined.schedule.lanes[0].steps, (Steps{"copy", "augment", "encode"}));
  const Plan mixed = with_device_transforms({{{"copy"}, 0}, {{"mix"}, 0}, {{"train"}, 2}});
  EXPECT_EQ(mixed.schedule.lanes[1].steps, (Steps{"augment", "mix"}));
  EXPECT_EQ(mixed.schedule.depth, 4U);
}

TEST(Changes, SeparateLaneHidesPartOfDeviceTransformTime) {
  PipelineModel model = usual_model();
  model.steps[3] = make_step("blur", Bottleneck::transforms, 0, 50e-3);
  Observations observed = make_observations(model);
  observed.situation.on_gpu = true;
  observed.situation.on_device_from = "blur";
  observed.situation.augment_s = {{0.02, 0.02, 0.02, "s", 9}};
  const auto step_s = [&](const std::vector<LanePlan>& lanes) {
    observed.situation.plan.schedule.lanes = lanes;
    const Diagnosis diagnosis = diagnose(observed);
    const Change* const change = find(diagnosis, "device_transforms");
    return change == nullptr ? 0 : 1 / change->predicted.value;
  };
  EXPECT_NEAR(step_s({{{"copy", "train"}, 0}}), 0.12, 0.002);
  EXPECT_NEAR(step_s({{{"copy"}, 0}, {{"train"}, 2}}), 0.11, 0.002);
}

TEST(Changes, RemedyUsesEitherCacheOrDeviceTransforms) {
  PipelineModel model = usual_model();
  model.line_waiting_s = 0.002;
  model.steps[1] = make_step("decode", Bottleneck::decode, 0, 10e-3);
  model.steps[2] = make_step("crop", Bottleneck::transforms, 0, 10e-3);
  Observations observed = make_observations(model);
  observed.situation.on_gpu = true;
  observed.levels[1].name = kPinnedLevel;
  observed.situation.last_fixed_step = "crop";
  observed.situation.on_device_from = "decode";
  const Remedy remedy = find_remedy(observed, diagnose(observed));
  const LoaderPlan& loader = remedy.plan.schedule.loader;
  ASSERT_FALSE(loader.on_device.empty() && !loader.cache) << "each of the two would help";
  EXPECT_TRUE(loader.on_device.empty() || !loader.cache) << "they cannot be combined";
}

TEST(Changes, RemedyPrefersMoreWorkersOverCacheOfEqualGain) {
  PipelineModel model = usual_model();
  model.workers = 2;
  model.line_waiting_s = 0.31;
  model.steps[1] = make_step("decode", Bottleneck::decode, 35e-3, 0);
  const Observations observed = make_observations(model);
  const Diagnosis diagnosis = diagnose(observed);
  ASSERT_NE(find(diagnosis, "cache"), nullptr);
  ASSERT_NE(find(diagnosis, "num_workers"), nullptr);
  const Remedy remedy = find_remedy(observed, diagnosis);
  EXPECT_EQ(remedy.changes, std::vector<std::string>{"num_workers"});
  EXPECT_FALSE(remedy.plan.schedule.loader.cache);
}

TEST(Changes, PipeliningIsProposedOnlyIfAllDeviceStepsWereMeasured) {
  const DeviceCost copy{"copy", {0.04, 0.04, 0.04, "s", 9}, 0, 0};
  const DeviceCost train{"train", {0.06, 0.06, 0.06, "s", 9}, 0, 0};
  Observations observed = make_observations(usual_model(), 0.04);
  observed.device = {copy, train};
  const Diagnosis diagnosis = diagnose(observed);
  const Change* const change = find(diagnosis, "pipelining");
  ASSERT_NE(change, nullptr);
  EXPECT_NEAR(change->gain.value, 1 / 0.6, 0.05);
  Plan plan = observed.situation.plan;
  plan.schedule.run_ahead = 7;
  plan.schedule.loader.pin_memory = false;
  change->apply(plan);
  EXPECT_EQ(plan.schedule.lanes.size(), 2U);
  EXPECT_EQ(plan.schedule.run_ahead, 7U);
  EXPECT_FALSE(plan.schedule.loader.pin_memory) << "the change does not concern it";
  observed.situation.plan.schedule.lanes = {{{"copy", "encode", "train"}, 0}};
  EXPECT_EQ(find(diagnose(observed), "pipelining"), nullptr) << "the longest step may be 'encode'";
}

TEST(Changes, FewerWorkersAreProposedIfHalfAreFaster) {
  PipelineModel model = usual_model();
  model.steps[1] = make_step("decode", Bottleneck::decode, 0, 60e-3);
  Observations observed = make_observations(model);
  const double all = observed.rate_of_all_workers.value;
  observed.rate_of_half_of_workers = {1.4 * all, 1.39 * all, 1.41 * all, "samples/s", 9};
  const Diagnosis diagnosis = diagnose(observed);
  const Change* const change = find(diagnosis, "num_workers");
  ASSERT_NE(change, nullptr);
  EXPECT_NEAR(change->gain.value, 1.4, 0.03);
  Plan plan;
  change->apply(plan);
  EXPECT_EQ(plan.schedule.loader.num_workers, 2U);
  observed.rate_of_half_of_workers = {0.5 * all, 0.49 * all, 0.51 * all, "samples/s", 9};
  const Diagnosis usual = diagnose(observed);
  ASSERT_NE(find(usual, "num_workers"), nullptr);
  find(usual, "num_workers")->apply(plan);
  EXPECT_GT(plan.schedule.loader.num_workers, 4U);
}

TEST(Changes, ZeroWorkersLoadBetweenStepsAndTwoWorkersAreProposed) {
  PipelineModel model = usual_model();
  model.workers = 1;
  model.slabs = 1;
  Observations observed = make_observations(model);
  observed.workers = 0;
  observed.slabs_per_worker = 2;
  const double whole_s = 32 * 4.01e-3 + 0.1;
  EXPECT_NEAR(simulated_step_s(model), whole_s, 0.01 * whole_s);
  const Diagnosis diagnosis = diagnose(observed);
  const Change* change = find(diagnosis, "num_workers");
  ASSERT_NE(change, nullptr);
  EXPECT_EQ(change->number, 2U);
  EXPECT_NEAR(change->predicted.value, 10, 0.5)
      << "one worker needs more than the 100 ms of the lanes";
  EXPECT_EQ(find(diagnosis, "prefetch_batches"), nullptr);
}

TEST(Changes, SetWorkersUpdatesNumberOfSlabs) {
  PipelineModel model = usual_model();
  model.slabs_per_worker = 3;
  model.set_workers(5);
  EXPECT_EQ(model.workers, 5U);
  EXPECT_EQ(model.slabs, 16U);
}

TEST(Changes, SlowTransformProposesCheaperTransformAndNoConversion) {
  PipelineModel model = usual_model();
  model.line_waiting_s = 0.002;
  model.steps = {make_step("data set", Bottleneck::read, 0, 1e-3),
                 make_step("blur", Bottleneck::transforms, 0, 9e-3),
                 make_step("collate", Bottleneck::collate, 0, 1e-5)};
  const Diagnosis diagnosis = diagnose(make_observations(model));
  EXPECT_EQ(find(diagnosis, "convert"), nullptr);
  const Change* cheaper = find(diagnosis, "cheaper_transform");
  ASSERT_NE(cheaper, nullptr);
  EXPECT_EQ(cheaper->step, "blur");
}

TEST(Changes, SlowCollatingProposesCheaperCollating) {
  PipelineModel model = usual_model();
  model.line_waiting_s = 0.002;
  model.steps.back().working_s = {9e-3F};
  const Diagnosis diagnosis = diagnose(make_observations(model));
  const Change* cheaper = find(diagnosis, "cheaper_collate");
  ASSERT_NE(cheaper, nullptr);
  EXPECT_EQ(cheaper->bottleneck, Bottleneck::collate);
}

TEST(Changes, CacheIsNeverProposedAfterStepInsideOfAnother) {
  PipelineModel model = usual_model();
  model.line_waiting_s = 0.002;
  Observations observed = make_observations(model);
  observed.situation.last_fixed_step = "decode";
  ASSERT_NE(find(diagnose(observed), "cache"), nullptr);
  observed.host[1].is_inside = true;
  const Diagnosis diagnosis = diagnose(observed);
  const Change* change = find(diagnosis, "cache");
  ASSERT_NE(change, nullptr);
  EXPECT_EQ(change->step, "read");
}

TEST(Changes, ProposalOfOneWorkerUsesSingular) {
  PipelineModel model = usual_model();
  model.workers = 2;
  model.steps[1] = make_step("decode", Bottleneck::decode, 0, 60e-3);
  Observations observed = make_observations(model);
  const double all = observed.rate_of_all_workers.value;
  observed.rate_of_half_of_workers = {1.4 * all, 1.39 * all, 1.41 * all, "samples/s", 9};
  const Diagnosis diagnosis = diagnose(observed);
  const Change* const change = find(diagnosis, "num_workers");
  ASSERT_NE(change, nullptr);
  EXPECT_THAT(change->description, testing::StartsWith("use 1 worker: "));
}

class JpegWireChange : public testing::Test {
 protected:
  JpegWireChange() {
    PipelineModel model = usual_model();
    model.steps[1] = make_step("decode", Bottleneck::decode, 0, 50e-3);
    observed_ = make_observations(model);
    observed_.situation.on_gpu = true;
    observed_.situation.wires = {{"image", Wire::jpeg, 0, Measured{0.02, 0.02, 0.02, "s", 9}, ""}};
  }
  void set_lanes(const std::vector<LanePlan>& lanes) {
    observed_.situation.plan.schedule.lanes = lanes;
  }
  WireChoice& choice() { return observed_.situation.wires.front(); }
  Change change() const {
    const Diagnosis diagnosis = diagnose(observed_);
    const Change* const found = find(diagnosis, "wire_image");
    return found == nullptr ? Change{} : *found;
  }

  const std::vector<LanePlan> serial_ = {{{"copy", "train"}, 0}};
  const std::vector<LanePlan> apart_ = {{{"copy"}, 0}, {{"train"}, 2}};
  Observations observed_;
};

TEST_F(JpegWireChange, SerialStepIncludesMeasuredDecodeTime) {
  set_lanes(serial_);
  EXPECT_NEAR(1 / change().predicted.value, 0.12, 0.002);
  EXPECT_EQ(change().action, "--wire image=jpeg");
  EXPECT_EQ(change().bottleneck, Bottleneck::decode);
  EXPECT_FALSE(change().is_upper_bound) << "the time of the JPEG engines was measured";
  EXPECT_FALSE(change().apply) << "pixels differ, and a trainer's numerics cannot change";
}

TEST_F(JpegWireChange, DecodeTimeOnSeparateLaneOverlapsTraining) {
  set_lanes(apart_);
  EXPECT_NEAR(1 / change().predicted.value, 0.1, 0.002);
  choice().decode_s = Measured{0.15, 0.15, 0.15, "s", 9};
  EXPECT_NEAR(1 / change().predicted.value, 0.15, 0.003) << "the JPEG engines are the bottleneck";
}

TEST_F(JpegWireChange, LaterTransformsMoveToDeviceToo) {
  set_lanes(apart_);
  choice().on_device_from = "blur";
  EXPECT_TRUE(change().is_upper_bound) << "the time of these on the device was not measured";
  EXPECT_EQ(change().action, "--wire image=jpeg --transforms-device cuda");
  EXPECT_THAT(change().description,
              testing::HasSubstr("run the transforms from 'blur' to the last one there"));
  observed_.situation.augment_s = {{0.04, 0.04, 0.04, "s", 9}};
  EXPECT_FALSE(change().is_upper_bound);
  EXPECT_NEAR(1 / change().predicted.value, 0.12, 0.002);
}

TEST_F(JpegWireChange, IsNotProposedWithoutMeasuredDecodeTime) {
  choice().decode_s.reset();
  EXPECT_EQ(change().id, "");
}

/// Observes a loop on a GPU without page-locked memory. A step takes 100 ms; with page-locked
/// memory it takes `pinned_s`, or was not measured if that is 0.
Observations without_pinned_memory(double pinned_s) {
  Observations observed = make_observations(usual_model(), 0.04);
  observed.situation.on_gpu = true;
  observed.situation.plan.schedule.loader.pin_memory = false;
  observed.levels[1].name = kPageableLevel;
  if (pinned_s > 0) {
    Level pinned = observed.levels[1];
    pinned.name = kPinnedLevel;
    pinned.with_training = Measured{1 / pinned_s, 0.99 / pinned_s, 1.01 / pinned_s, "steps/s", 16};
    observed.levels.insert(observed.levels.begin() + 1, pinned);
  }
  return observed;
}

TEST(Changes, PinningIsProposedOnlyIfMeasuredFaster) {
  const Diagnosis diagnosis = diagnose(without_pinned_memory(0.08));
  const Change* const pinning = find(diagnosis, "pinning");
  ASSERT_NE(pinning, nullptr);
  EXPECT_NEAR(1 / pinning->predicted.value, 0.08, 0.002);
  EXPECT_EQ(find(diagnose(without_pinned_memory(0.11)), "pinning"), nullptr)
      << "page-locked memory is slower";
  EXPECT_EQ(find(diagnose(without_pinned_memory(0)), "pinning"), nullptr)
      << "page-locked memory was not measured";
  Observations only_pinned = without_pinned_memory(0);
  only_pinned.levels[1].name = kPinnedLevel;
  EXPECT_EQ(find(diagnose(only_pinned), "pinning"), nullptr) << "pageable memory was not measured";
}

TEST(Changes, SmallerWireFormatShortensCopyInProportion) {
  Observations observed = make_observations(usual_model(), 0.04);  // 40 of the 100 ms of a step
  observed.levels[1].name = kPinnedLevel;
  observed.situation.on_gpu = true;
  observed.situation.wires = {{"mask", Wire::bits, 0.5, std::nullopt, ""},
                              {"image", Wire::fp16, 0.5, std::nullopt, ""}};
  const Diagnosis diagnosis = diagnose(observed);
  const Change* const mask = find(diagnosis, "wire_mask");
  ASSERT_NE(mask, nullptr);
  EXPECT_NEAR(1 / mask->predicted.value, 0.08, 0.002);
  EXPECT_EQ(mask->action, "--wire mask=bits");
  EXPECT_THAT(mask->description, testing::HasSubstr("50 % fewer bytes"));
  Plan plan;
  mask->apply(plan);
  EXPECT_EQ(plan.schedule.loader.wire.at("mask"), Wire::bits);
  const Change* const image = find(diagnosis, "wire_image");
  ASSERT_NE(image, nullptr);
  EXPECT_THAT(image->description, testing::HasSubstr("rounded"));
  EXPECT_FALSE(image->apply);
}

TEST(WhatIf, ReducedStepCostPredictsResultingRate) {
  PipelineModel model = usual_model();
  model.steps[1] = make_step("decode", Bottleneck::decode, 30e-3, 30e-3);
  const Observations observed = make_observations(model);
  const Diagnosis diagnosis = diagnose(observed);
  const Change change = what_if(observed, diagnosis, {{"decode", 20e-3}});
  model.steps[1] = make_step("decode", Bottleneck::decode, 10e-3, 10e-3);
  EXPECT_NEAR(change.predicted.value * simulated_step_s(model), 1, 0.03);
  EXPECT_GT(what_if(observed, diagnosis, {{"decode", 0}}).predicted.value, change.predicted.value);
  EXPECT_THROW(what_if(observed, diagnosis, {{"dekode", 0}}), Refused);
  EXPECT_THROW(what_if(observed, diagnosis, {{"decode", -1}}), Refused);
}

TEST(WhatIf, PredictedRateNeverExceedsTrainingRate) {
  PipelineModel model = usual_model();
  model.steps[1] = make_step("decode", Bottleneck::decode, 60e-3, 0);
  Observations observed = make_observations(model);
  Measured& rate = *observed.levels.back().with_training;
  rate = {1.5 * rate.value, rate.value, 2 * rate.value, rate.unit, rate.n};
  const Change change = what_if(observed, diagnose(observed), {{"decode", 0}});
  EXPECT_LE(change.predicted.value, 1 / model.line_waiting_s + 1e-9);
}

TEST(Changes, RemedyPredictsCombinedRateOfItsChanges) {
  const Observations observed = make_observations(article_model(), 0.01);
  const Diagnosis diagnosis = diagnose(observed);
  const Remedy remedy = find_remedy(observed, diagnosis);
  ASSERT_FALSE(remedy.changes.empty());
  EXPECT_GT(remedy.plan.schedule.loader.num_workers, 4U);
  EXPECT_NEAR(remedy.predicted.value, 1 / 0.31, 0.15);
}

}  // namespace
}  // namespace slipstream
