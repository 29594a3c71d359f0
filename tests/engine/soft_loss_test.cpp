#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <gmock/gmock.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "slipstream/engine/loss.h"
#include "support/thrown.h"

namespace slipstream {
namespace {

using testing::HasSubstr;

at::Tensor probabilities(std::int64_t batch, std::int64_t classes) {
  return at::randn({batch, classes}).mul(2).softmax(1);
}

bool are_same_bits(const at::Tensor& a, const at::Tensor& b) {
  return a.sizes() == b.sizes() && std::memcmp(a.contiguous().const_data_ptr(),
                                               b.contiguous().const_data_ptr(), a.nbytes()) == 0;
}

TEST(SoftCrossEntropy, AgreesWithPyTorchInFloat64) {
  at::manual_seed(5);
  for (const auto type : {at::kFloat, at::kBFloat16})
    for (const auto& [batch, classes] :
         std::vector<std::pair<std::int64_t, std::int64_t>>{{1, 1}, {7, 10}, {64, 3}, {5, 1000}}) {
      SCOPED_TRACE(std::to_string(batch) + " x " + std::to_string(classes));
      const at::Tensor logits = at::randn({batch, classes}).mul(4).to(type);
      // Targets whose sum is 1, as mixing creates them, and others.
      for (const double whole : {1.0, 0.25}) {
        const at::Tensor targets = probabilities(batch, classes).mul(whole);
        const at::Tensor leaf = logits.to(at::kDouble).detach().requires_grad_(true);
        const at::Tensor expected = at::cross_entropy_loss(leaf, targets.to(at::kDouble));
        expected.backward();
        const LossValue value = cross_entropy_value(logits, targets);
        EXPECT_EQ(value.loss.scalar_type(), at::kFloat);
        EXPECT_NEAR(value.loss.item<float>(), expected.item<double>(),
                    1e-6 + 1e-5 * expected.item<double>());
        EXPECT_EQ(value.gradient.scalar_type(), type);
        const double tolerance = type == at::kFloat ? 2e-6 : 1.0 / 256;
        const at::Tensor wrong = value.gradient.to(at::kDouble).sub(leaf.grad()).abs();
        EXPECT_LE(wrong.max().item<double>(), tolerance / static_cast<double>(batch));
        EXPECT_EQ(value.labels, batch);
        EXPECT_EQ(value.correct.item<std::int64_t>(),
                  logits.argmax(1).eq(targets.argmax(1)).sum().item<std::int64_t>());
      }
    }
}

TEST(SoftCrossEntropy, OneHotTargetsMatchIndexLabelsBitForBit) {
  at::manual_seed(6);
  const at::Tensor logits = at::randn({19, 12}).mul(3);
  const at::Tensor labels = at::randint(12, {19}, at::kLong);
  const at::Tensor one_hot = at::zeros({19, 12}).scatter_(1, labels.unsqueeze(1), 1);
  const LossValue hard = cross_entropy_value(logits, labels);
  const LossValue soft = cross_entropy_value(logits, one_hot);
  EXPECT_TRUE(are_same_bits(hard.loss, soft.loss));
  EXPECT_TRUE(are_same_bits(hard.gradient, soft.gradient));
  EXPECT_TRUE(are_same_bits(hard.correct, soft.correct));
}

TEST(SoftCrossEntropy, IsBitEqualForAnyNumberOfThreadsAndAnyStrides) {
  at::manual_seed(7);
  const at::Tensor logits = at::randn({9000, 5});
  const at::Tensor targets = probabilities(9000, 5);
  const int before = at::get_num_threads();
  at::set_num_threads(1);
  const LossValue one = cross_entropy_value(logits, targets);
  for (const int threads : {2, 5}) {
    at::set_num_threads(threads);
    const LossValue many = cross_entropy_value(logits, targets);
    EXPECT_TRUE(are_same_bits(one.loss, many.loss));
    EXPECT_TRUE(are_same_bits(one.gradient, many.gradient));
  }
  at::set_num_threads(before);
  const LossValue turned =
      cross_entropy_value(logits.t().contiguous().t(), targets.t().contiguous().t());
  EXPECT_TRUE(are_same_bits(one.loss, turned.loss));
  EXPECT_TRUE(are_same_bits(one.gradient, turned.gradient));
}

TEST(SoftCrossEntropy, FirstOfEqualProbabilitiesIsTheCorrectClass) {
  const at::Tensor logits = at::zeros({2, 3});
  logits[0][1] = 1;
  const at::Tensor targets = at::full({2, 3}, 0.5);
  targets[1][0] = 0.25;
  EXPECT_EQ(cross_entropy_value(logits, targets).correct.item<std::int64_t>(), 0);
  targets[0][0] = 0;
  EXPECT_EQ(cross_entropy_value(logits, targets).correct.item<std::int64_t>(), 1);
}

TEST(SoftCrossEntropy, MinusInfinityLogitWithZeroProbabilityAddsNoLoss) {
  const at::Tensor logits = at::zeros({1, 3});
  logits[0][2] = -std::numeric_limits<float>::infinity();
  const at::Tensor targets = at::zeros({1, 3});
  targets[0][0] = 1;
  const LossValue value = cross_entropy_value(logits, targets);
  EXPECT_NEAR(value.loss.item<float>(), std::log(2.0), 1e-6);
  EXPECT_TRUE(value.gradient.isfinite().all().item<bool>());
}

TEST(SoftCrossEntropy, InvalidShapesAndDtypesThrow) {
  const auto thrown = [](const at::Tensor& logits, const at::Tensor& targets) {
    return thrown_by([&] { cross_entropy_value(logits, targets); });
  };
  EXPECT_THAT(thrown(at::zeros({2, 3}), at::zeros({2, 4})), HasSubstr("the labels are of 4"));
  EXPECT_THAT(thrown(at::zeros({2, 3}), at::zeros({3, 3})), HasSubstr("do not match"));
  EXPECT_THAT(thrown(at::zeros({2, 3}), at::zeros({2, 3}, at::kDouble)), HasSubstr("do not match"));
  EXPECT_THAT(thrown(at::zeros({2, 3, 4, 4}), at::zeros({2, 3})), HasSubstr("do not match"));
}

}  // namespace
}  // namespace slipstream
