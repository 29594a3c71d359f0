#include <gmock/gmock.h>

#include <limits>

#include "slipstream/engine/optimizer.h"
#include "support/thrown.h"

namespace slipstream {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using Kind = LrSchedule::Kind;

/// The expected values are those of torch.optim.lr_scheduler (PyTorch 2.11) for these of 20
/// updates.
constexpr std::array<std::uint64_t, 8> kUpdates = {0, 1, 4, 5, 9, 10, 15, 19};

void expect_factors(const LrSchedule& schedule, const std::array<double, 8>& factors) {
  schedule.validate();
  for (std::size_t i = 0; i < kUpdates.size(); ++i)
    EXPECT_NEAR(schedule.factor(kUpdates[i]), factors[i], 1e-8) << "update " << kUpdates[i];
}

TEST(LrSchedule, IsConstantByDefault) { expect_factors({}, {1, 1, 1, 1, 1, 1, 1, 1}); }

TEST(LrSchedule, FollowsStepLR) {
  expect_factors({.kind = Kind::step, .step_size = 3, .gamma = 0.5},
                 {1, 1, 0.5, 0.5, 0.125, 0.125, 0.03125, 0.015625});
}

TEST(LrSchedule, FollowsCosineAnnealingLR) {
  expect_factors(
      {.kind = Kind::cosine, .updates = 20, .end_factor = 0.1},
      {1, 0.994459753, 0.914057647, 0.868198052, 0.620395509, 0.55, 0.231801948, 0.105540247});
}

TEST(LrSchedule, FollowsLinearLR) {
  expect_factors({.kind = Kind::linear, .updates = 20, .end_factor = 0.2},
                 {1, 0.96, 0.84, 0.8, 0.64, 0.6, 0.4, 0.24});
}

TEST(LrSchedule, FollowsOneCycleLR) {
  expect_factors({.kind = Kind::one_cycle, .updates = 20},
                 {0.04, 0.131671843, 0.908328157, 1, 0.811745654, 0.716943002, 0.188258346, 4e-6});
}

TEST(LrSchedule, WarmUpFollowsSequentialLRWithLinearLR) {
  expect_factors({.kind = Kind::cosine, .updates = 20, .warmup = 5},
                 {0.01, 0.208, 0.802, 1, 0.834565303, 0.75, 0.25, 0.0109262});
}

TEST(LrSchedule, FactorIsConstantAfterLastUpdate) {
  const LrSchedule cosine{.kind = Kind::cosine, .updates = 20, .end_factor = 0.1};
  EXPECT_NEAR(cosine.factor(20), 0.1, 1e-12);
  EXPECT_NEAR(cosine.factor(1000), 0.1, 1e-12);
  const LrSchedule cycle{.kind = Kind::one_cycle, .updates = 20};
  EXPECT_NEAR(cycle.factor(1000), 4e-6, 1e-12);
}

TEST(LrSchedule, InvalidOptionsAreRefused) {
  const auto refused = [](const LrSchedule& schedule) {
    return thrown_by([&] { schedule.validate(); });
  };
  EXPECT_THAT(refused({.kind = Kind::cosine}),
              AllOf(HasSubstr("Refused: "), HasSubstr("number of updates")));
  EXPECT_THAT(refused({.kind = Kind::linear, .updates = 5, .warmup = 5}),
              HasSubstr("warm-up of 5 updates is not shorter than the training, which has 5"));
  EXPECT_THAT(refused({.kind = Kind::step}), HasSubstr("step size of at least 1"));
  EXPECT_THAT(refused({.kind = Kind::one_cycle, .updates = 3}), HasSubstr("at least 4 updates"));
  EXPECT_THAT(refused({.kind = Kind::one_cycle, .updates = 30, .warmup = 2}),
              HasSubstr("already has a warm-up"));
  EXPECT_THAT(refused({.gamma = std::numeric_limits<double>::infinity()}), HasSubstr("gamma"));
  EXPECT_THAT(refused({.end_factor = -1}), HasSubstr("factors must be from 0 to 1"));
  EXPECT_THAT(refused({.warmup_factor = 1.5}), HasSubstr("factors must be from 0 to 1"));
}

TEST(LrSchedule, NameSelectsKindAndUnknownNameIsRefused) {
  EXPECT_EQ(schedule_named("one-cycle"), Kind::one_cycle);
  EXPECT_EQ(schedule_named("constant"), Kind::constant);
  EXPECT_THAT(thrown_by([] { schedule_named("cosin"); }),
              AllOf(HasSubstr("Refused: "), HasSubstr("did you mean 'cosine'?")));
}

}  // namespace
}  // namespace slipstream
