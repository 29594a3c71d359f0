#include "doctor/situation.h"

#include <gmock/gmock.h>

#include "doctor/trials.h"
#include "engine/engine.h"
#include "slipstream/datasets/datasets.h"
#include "slipstream/transforms/resize.h"
#include "slipstream/transforms/transforms.h"
#include "support/made_set.h"

namespace slipstream::test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class SituationTest : public EngineTest {
 protected:
  static Plan plan() { return build_plan(kThreeLanes, Driver::threaded, 3); }
};

/// Synthetic samples that claim to support partial decoding.
std::shared_ptr<const Dataset> make_partially_decodable_samples() {
  const auto set = set_around(synthetic_segmentation({.samples = 16, .size = 16, .classes = 5}),
                              [](std::size_t) {});
  set->decodes_default = true;
  return set;
}

TEST_F(SituationTest, DecodesPartsOnlyIfFirstTransformIsCrop) {
  const auto decodes_parts = [this](const Tiny& tiny) {
    return make_situation(*trainer(tiny), plan(), {}).decodes_parts;
  };
  Tiny tiny;
  tiny.dataset = make_partially_decodable_samples();
  tiny.transforms = {{"crop", RandomCrop{8}}};
  EXPECT_TRUE(decodes_parts(tiny));
  tiny.on_bad_sample = OnBadSample::skip;
  EXPECT_FALSE(decodes_parts(tiny)) << "finding bad samples requires the whole file";
  tiny.on_bad_sample = OnBadSample::stop;
  tiny.transforms = {{"flip", RandomHorizontalFlip{}}, {"crop", RandomCrop{8}}};
  EXPECT_FALSE(decodes_parts(tiny));
  tiny.dataset = nullptr;
  tiny.transforms = {{"crop", RandomCrop{8}}};
  EXPECT_FALSE(decodes_parts(tiny)) << "the images are not files";
}

TEST_F(SituationTest, LateCropAfterResizeMovesOnlyBeforeNormalize) {
  Tiny tiny;
  tiny.transforms = {
      {"resize", Resize{{32, 32}}}, {"normal", Normalize{}}, {"crop", CenterCrop{8}}};
  const std::vector<double> bytes = {1, 768, 3072, 3072 * 4, 192 * 4, 192 * 4};
  const Situation situation = make_situation(*trainer(tiny), plan(), bytes);
  EXPECT_EQ(situation.crop, "crop");
  EXPECT_EQ(situation.crop_moved_before, "normal");
  tiny.transforms = {
      {"resize", Resize{{32, 32}}}, {"crop", CenterCrop{8}}, {"normal", Normalize{}}};
  const std::vector<double> other = {1, 768, 3072, 192, 192 * 4, 192 * 4};
  EXPECT_EQ(make_situation(*trainer(tiny), plan(), other).crop, "");
}

TEST_F(SituationTest, FieldsReadByTrainingAreNotReportedAsUnused) {
  const auto one = trainer({});
  Trials trials(*one, [] { return true; }, {});
  EXPECT_TRUE(trials.trains(plan(), "the plan as it is"));
  EXPECT_THAT(unused_fields(trials, plan()), IsEmpty());
  EXPECT_THAT(trials.left_out(), IsEmpty());
}

TEST_F(SituationTest, TrialsWithoutTimeAreListedAndNotRun) {
  const auto one = trainer({});
  const std::uint64_t digest = one->digest();
  Trials trials(*one, [] { return false; }, {});
  EXPECT_THAT(unused_fields(trials, plan()), IsEmpty());
  EXPECT_THAT(trials.left_out(),
              ElementsAre("training without 'image'", "training without 'label'"));
  EXPECT_EQ(one->digest(), digest);
}

TEST_F(SituationTest, InterruptStopsTrials) {
  const auto one = trainer({});
  const std::uint64_t digest = one->digest();
  int asked = 0;
  Trials trials(
      *one, [] { return true; }, [&asked] { return ++asked > 1; });
  EXPECT_FALSE(trials.trains(plan(), "the plan as it is")) << "no step was run";
  EXPECT_FALSE(trials.trains(plan(), "the plan as it is"));
  EXPECT_EQ(asked, 3) << "polled before the first trial, during it, and before the second";
  EXPECT_THAT(trials.left_out(), IsEmpty());
  EXPECT_EQ(one->digest(), digest);
}

}  // namespace
}  // namespace slipstream::test
