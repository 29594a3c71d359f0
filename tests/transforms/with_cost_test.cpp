#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <numeric>
#include <thread>

#include "core/seconds_since.h"
#include "slipstream/transforms/masking.h"
#include "slipstream/transforms/transforms.h"
#include "support/thrown.h"
#include "transforms/cost_simulator.h"
#include "transforms/op_runner.h"
#include "transforms/synthetic_cost.h"

namespace slipstream {
namespace {

using testing::AllOf;
using testing::Each;
using testing::HasSubstr;
using testing::StartsWith;

const std::vector<FieldSpec> kSpecs = {
    {"photo", FieldKind::image, DType::uint8, {16, 16, 3}, 0},
};

Levels run(const AnyOp& op, std::uint64_t number = 1) {
  const auto image = counted_image(16, 16);
  Sample sample;
  sample.fields.resize(1);
  sample.fields[0].array.assign(image.view());
  std::vector<HostArray> spare(1);
  Scratch scratch;
  op.apply(make_key(number), kSpecs, sample, spare, scratch);
  const ConstArray out = sample.fields[0].array.view();
  return {out.as<std::uint8_t>(), out.as<std::uint8_t>() + out.bytes()};
}

template <typename Body>
double measure_seconds(const Body& body) {
  const auto start = std::chrono::steady_clock::now();
  body();
  return seconds_since(start);
}

std::vector<double> factors(const SyntheticCost& cost, std::uint64_t count) {
  std::vector<double> all;
  for (std::uint64_t i = 0; i < count; ++i) all.push_back(cost_factor(cost, i));
  return all;
}

double mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double cv(const std::vector<double>& values) {
  const double middle = mean(values);
  double squares = 0;
  for (const double value : values) squares += (value - middle) * (value - middle);
  return std::sqrt(squares / static_cast<double>(values.size())) / middle;
}

TEST(OperationCost, KeepsResultNameAndProperties) {
  const AnyOp bare = RandomMask{};
  const AnyOp costly = with_cost(with_cost(bare, {.sleep_s = 1e-5}), {.memory_bytes = 100});
  EXPECT_EQ(run(costly), run(bare));
  EXPECT_NE(run(costly, 2), run(bare));
  EXPECT_EQ(costly.name(), "random_mask");
  EXPECT_TRUE(costly.is_random());
  EXPECT_EQ(costly.drawn_bytes(), bare.drawn_bytes());
  ASSERT_NE(costly.get_if<RandomMask>(), nullptr);
  EXPECT_EQ(costly.get_if<RandomMask>()->p, 0.25);
  EXPECT_EQ(costly.get_if<RandomCrop>(), nullptr);
  const AnyOp crop = RandomCrop{8};
  const AnyOp costly_crop = with_cost(crop, {.sleep_s = 1e-5});
  EXPECT_TRUE(costly_crop.reads_region());
  EXPECT_TRUE(costly_crop.only_resizes());
  EXPECT_EQ(costly_crop.window(make_key(3), {16, 16, 3}), crop.window(make_key(3), {16, 16, 3}));
}

TEST(OperationCost, IsPaidOncePerSample) {
  const AnyOp waits = with_cost(RandomMask{}, {.sleep_s = 0.003});
  EXPECT_GE(measure_seconds([&] {
              for (int i = 0; i < 10; ++i) run(waits);
            }),
            10 * 0.003);
  const double before = static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
  run(with_cost(RandomMask{}, {.cpu_s = 0.02}));
  EXPECT_GE(static_cast<double>(std::clock()) / CLOCKS_PER_SEC - before, 0.02);
}

TEST(OperationCost, IsNotPaidWhenApplyingDrawnParameters) {
  const AnyOp op = with_cost(RandomMask{}, {.sleep_s = 30});
  alignas(16) std::array<std::byte, sizeof(DrawnMask)> drawn{};
  const auto image = counted_image(16, 16);
  HostArray out;
  Scratch scratch;
  EXPECT_LT(measure_seconds([&] {
              op.draw(make_key(1), image.shape, drawn.data());
              op.apply(drawn.data(), FieldKind::image, image.view(),
                       out.reset(DType::uint8, image.shape), scratch);
            }),
            30);
}

TEST(OperationCost, CopiesShareTheLock) {
  const AnyOp op = with_cost(RandomMask{}, {.sleep_s = 0.02, .lock = true});
  EXPECT_GE(measure_seconds([&] {
              std::vector<std::jthread> threads;
              for (int i = 0; i < 4; ++i) threads.emplace_back([copy = op] { run(copy); });
            }),
            4 * 0.02);
}

TEST(OperationCost, FactorIsOneWithoutVariation) {
  EXPECT_THAT(factors({.sleep_s = 1}, 100), Each(1));
}

TEST(OperationCost, FactorsHaveMeanOneAndTheGivenVariation) {
  for (const auto variation : {CostVariation::heavy_tail, CostVariation::bursts}) {
    for (const double stated : {0.5, 1.5}) {
      const SyntheticCost cost{.variation = variation, .cv = stated, .burst = 8};
      const auto drawn = factors(cost, 200'000);
      EXPECT_NEAR(mean(drawn), 1, 0.03) << stated;
      EXPECT_NEAR(cv(drawn), stated, 0.1 * stated) << stated;
      EXPECT_EQ(factors(cost, 1000), std::vector(drawn.begin(), drawn.begin() + 1000));
      SyntheticCost other = cost;
      other.seed = 2;
      EXPECT_NE(factors(other, 1000), factors(cost, 1000));
    }
  }
}

TEST(OperationCost, HeavyTailIsPositiveAndSkewed) {
  auto drawn = factors({.variation = CostVariation::heavy_tail, .cv = 1}, 10'000);
  std::sort(drawn.begin(), drawn.end());
  EXPECT_GT(drawn.front(), 0);
  EXPECT_LT(drawn[5000], 0.8);
  EXPECT_GT(drawn[9900], 4);
}

TEST(OperationCost, BurstsAreRunsOfEqualFactors) {
  const auto drawn = factors({.variation = CostVariation::bursts, .cv = 1, .burst = 50}, 50 * 400);
  int paying = 0;
  for (std::size_t run = 0; run < 400; ++run) {
    const std::vector one(drawn.begin() + 50 * run, drawn.begin() + 50 * (run + 1));
    EXPECT_THAT(one, Each(one.front()));
    EXPECT_THAT(one.front(), testing::AnyOf(0, 2));
    paying += one.front() > 0 ? 1 : 0;
  }
  EXPECT_NEAR(paying, 200, 50);
}

TEST(OperationCost, SuccessiveCallsUseSuccessiveFactors) {
  const SyntheticCost cost{
      .sleep_s = 0.001, .variation = CostVariation::bursts, .cv = 3, .burst = 1, .seed = 4};
  const AnyOp op = with_cost(RandomMask{}, cost);
  double stated = 0;
  for (const double factor : factors(cost, 60)) stated += factor * cost.sleep_s;
  ASSERT_GT(stated, 0.02);
  EXPECT_GE(measure_seconds([&] {
              for (int i = 0; i < 60; ++i) run(op);
            }),
            stated);
}

TEST(OperationCost, InvalidCostIsRefused) {
  EXPECT_THAT(thrown_by([] { with_cost(RandomMask{}, {.sleep_s = -1, .cv = 11, .burst = 0}); }),
              AllOf(StartsWith("Refused: the cost of random_mask is negative"),
                    HasSubstr("give 0 to 10"), HasSubstr("at least 1")));
  EXPECT_THAT(thrown_by([] { with_cost(RandomMask{}, {.cpu_s = 3601}); }),
              HasSubstr("over an hour"));
  EXPECT_THAT(thrown_by([] { with_cost(RandomMask{}, {.cv = std::nan("")}); }),
              StartsWith("Refused: "));
}

}  // namespace
}  // namespace slipstream
