#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "doctor/model_parts.h"
#include "doctor/observed.h"
#include "slipstream/core/error.h"

namespace slipstream {
namespace {

using testing::HasSubstr;
using testing::Not;

void scale(Measured& rate, double by) {
  rate = {by * rate.value, by * rate.low, by * rate.high, rate.unit, rate.n};
}

Level& level_after(Observations& observed, const std::string& step) {
  const auto at = std::find_if(observed.levels.begin(), observed.levels.end(),
                               [&](const Level& level) { return level.after == step; });
  if (at == observed.levels.end()) throw Error("no level after " + step);
  return *at;
}

/// Returns observations of a pipeline with slow decoding and a full cache after the crop.
/// Measurements with a cut do not use the cache. `blur_s` is the remaining cost of a sample.
Observations observe_cache_after_crop(double blur_s) {
  constexpr std::size_t kCached = 3;
  PipelineModel model = usual_model();
  model.steps[1] = make_step("decode", Bottleneck::decode, 0, 50e-3);
  model.steps[3] = make_step("blur", Bottleneck::transforms, 0, blur_s);
  const Observations cut = make_observations(model);
  Observations observed = make_observations(cut_after(model, kCached));
  for (std::size_t i = 0; i < observed.levels.size(); ++i)
    if (!observed.levels[i].after.empty()) observed.levels[i] = cut.levels[i];
  observed.situation.plan.schedule.loader.cache = CacheOptions{.after = "crop", .bytes = 1 << 30};
  return observed;
}

TEST(Contradiction, LevelsBeforeCacheMayBeSlowerThanPipeline) {
  Observations observed = observe_cache_after_crop(1e-3);
  ASSERT_LT(level_after(observed, "read").with_training->high,
            observed.levels.back().with_training->low);
  EXPECT_FALSE(find_contradiction(observed));
  const Diagnosis diagnosis = diagnose(observed);
  EXPECT_EQ(diagnosis.verdict, Bottleneck::device) << diagnosis.reason;
  EXPECT_THAT(diagnosis.reason, Not(HasSubstr("speed changed")));
}

TEST(Contradiction, LevelsBeforeCacheDoNotCountAsModelError) {
  const Diagnosis diagnosis = diagnose(observe_cache_after_crop(30e-3));
  EXPECT_EQ(diagnosis.verdict, Bottleneck::transforms) << diagnosis.reason;
  EXPECT_LT(diagnosis.model_error, 0.05);
}

TEST(Contradiction, LevelAfterCacheSlowerThanPipelineIsReported) {
  Observations observed = observe_cache_after_crop(1e-3);
  scale(*level_after(observed, "crop").with_training, 0.5);
  const auto found = find_contradiction(observed);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->shorter, "after crop");
}

TEST(Contradiction, SlowFullDecodeIsAllowedWhenOnlyPartsAreDecoded) {
  Observations observed = make_observations(usual_model());
  scale(*level_after(observed, "decode").with_training, 0.5);
  EXPECT_THAT(diagnose(observed).reason, HasSubstr("'after decode' was slower"));
  observed.situation.decodes_parts = true;
  EXPECT_FALSE(find_contradiction(observed));
  EXPECT_EQ(diagnose(observed).verdict, Bottleneck::device) << diagnose(observed).reason;
  scale(*level_after(observed, "crop").with_training, 0.5);
  EXPECT_TRUE(find_contradiction(observed))
      << "after the first transform, samples are the same in both cases";
}

TEST(Contradiction, CeilingMeasuredTooLowIsReportedInReason) {
  Observations observed = make_observations(usual_model());
  EXPECT_THAT(diagnose(observed).reason, Not(HasSubstr("too low")));
  scale(*observed.levels.front().with_training, 1 / 1.08);
  const Diagnosis diagnosis = diagnose(observed);
  EXPECT_EQ(diagnosis.verdict, Bottleneck::device) << diagnosis.reason;
  EXPECT_THAT(diagnosis.reason, HasSubstr("; the ceiling was measured too low, by 8 %)"));
}

}  // namespace
}  // namespace slipstream
