#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <gmock/gmock.h>

#include <cmath>
#include <cstring>

#include "slipstream/core/error.h"
#include "slipstream/engine/loss.h"
#include "support/thrown.h"

namespace slipstream {
namespace {

using testing::HasSubstr;

struct Case {
  std::string name;
  std::vector<std::int64_t> sizes;
  at::ScalarType labels = at::kByte;
  at::ScalarType logits = at::kFloat;
  bool channels_last = false;
};

bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  const at::Tensor left = a.contiguous(), right = b.contiguous();
  return left.sizes() == right.sizes() &&
         std::memcmp(left.const_data_ptr(), right.const_data_ptr(), left.nbytes()) == 0;
}

at::Tensor make_logits(const Case& c) {
  at::manual_seed(7);
  at::Tensor logits = at::randn(c.sizes).mul(4).to(c.logits);
  if (c.channels_last) logits = logits.contiguous(at::MemoryFormat::ChannelsLast);
  return logits;
}

at::Tensor make_labels(const Case& c) {
  std::vector<std::int64_t> sizes = c.sizes;
  sizes.erase(sizes.begin() + 1);
  return at::randint(c.sizes[1], sizes, at::TensorOptions().dtype(c.labels));
}

/// Returns PyTorch's loss and gradient in float64.
std::pair<double, at::Tensor> reference(const at::Tensor& logits, const at::Tensor& labels) {
  at::Tensor leaf = logits.to(at::kDouble).detach().requires_grad_(true);
  const at::Tensor loss = at::cross_entropy_loss(leaf, labels.to(at::kLong));
  loss.backward();
  return {loss.item<double>(), leaf.grad()};
}

class CrossEntropyTest : public testing::TestWithParam<Case> {};

TEST_P(CrossEntropyTest, AgreesWithPyTorchInFloat64) {
  const at::Tensor logits = make_logits(GetParam());
  const at::Tensor labels = make_labels(GetParam());
  const auto [loss, gradient] = reference(logits, labels);
  const LossValue value = cross_entropy_value(logits, labels);

  EXPECT_EQ(value.loss.scalar_type(), at::kFloat);
  EXPECT_NEAR(value.loss.item<float>(), loss, 1e-6 * std::abs(loss) + 1e-6);
  EXPECT_EQ(value.labels, labels.numel());
  EXPECT_EQ(value.correct.item<std::int64_t>(),
            logits.to(at::kDouble).argmax(1).eq(labels.to(at::kLong)).sum().item<std::int64_t>());
  ASSERT_EQ(value.gradient.sizes(), logits.sizes());
  EXPECT_EQ(value.gradient.scalar_type(), logits.scalar_type());
  const double of_one = 1.0 / static_cast<double>(labels.numel());
  // float32 sums over the classes; bf16 keeps 8 bits.
  const double tolerance = logits.scalar_type() == at::kFloat
                               ? 1e-6 + 1e-8 * static_cast<double>(logits.size(1))
                               : 1.0 / 256;
  EXPECT_LE(value.gradient.to(at::kDouble).sub(gradient).abs().max().item<double>(),
            tolerance * of_one);
}

TEST_P(CrossEntropyTest, IsBitEqualForAnyNumberOfThreads) {
  const at::Tensor logits = make_logits(GetParam());
  const at::Tensor labels = make_labels(GetParam());
  const int before = at::get_num_threads();
  at::set_num_threads(1);
  const LossValue one = cross_entropy_value(logits, labels);
  for (int threads : {2, 3, 8}) {
    at::set_num_threads(threads);
    const LossValue many = cross_entropy_value(logits, labels);
    EXPECT_TRUE(same_bits(one.loss, many.loss)) << threads << " threads";
    EXPECT_TRUE(same_bits(one.gradient, many.gradient)) << threads << " threads";
    EXPECT_TRUE(same_bits(one.correct, many.correct)) << threads << " threads";
  }
  at::set_num_threads(before);
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, CrossEntropyTest,
    testing::Values(Case{"Classes", {7, 10}}, Case{"ClassesLong", {7, 10}, at::kLong},
                    Case{"OneImageOfOnePixel", {1, 3, 1, 1}}, Case{"Nchw", {3, 10, 16, 16}},
                    Case{"NchwLong", {3, 10, 16, 16}, at::kLong},
                    Case{"ChannelsLast", {3, 10, 16, 16}, at::kByte, at::kFloat, true},
                    Case{"OddSizes", {5, 7, 13, 29}},
                    Case{"OddChannelsLast", {5, 7, 13, 29}, at::kLong, at::kFloat, true},
                    Case{"TwoClasses", {2, 2, 5, 3}}, Case{"ManyClasses", {2, 256, 9, 4}},
                    Case{"ManyBlocks", {4, 3, 96, 97}, at::kByte, at::kFloat, true},
                    Case{"Bf16", {3, 10, 16, 16}, at::kByte, at::kBFloat16},
                    Case{"Bf16ChannelsLast", {3, 10, 7, 9}, at::kByte, at::kBFloat16, true}),
    [](const auto& test) { return test.param.name; });

TEST(CrossEntropyLayoutTest, AnyStridesGiveTheSameValue) {
  at::manual_seed(3);
  const at::Tensor plain = at::randn({2, 5, 6, 4});
  const at::Tensor labels = at::randint(5, {2, 6, 4}, at::kByte);
  const LossValue expected = cross_entropy_value(plain, labels);
  const at::Tensor wide = at::zeros({2, 5, 6, 8});
  wide.narrow(3, 2, 4).copy_(plain);
  for (const at::Tensor& logits :
       {wide.narrow(3, 2, 4), plain.transpose(2, 3).contiguous().transpose(2, 3),
        plain.permute({3, 1, 0, 2}).contiguous().permute({2, 1, 3, 0})}) {
    ASSERT_TRUE(logits.equal(plain));
    const LossValue value = cross_entropy_value(logits, labels);
    EXPECT_TRUE(same_bits(value.loss, expected.loss));
    EXPECT_TRUE(same_bits(value.gradient, expected.gradient));
  }
  const at::Tensor every_second = at::zeros({2, 6, 8}, at::kByte);
  every_second.slice(2, 0, 8, 2).copy_(labels);
  EXPECT_TRUE(same_bits(cross_entropy_value(plain, every_second.slice(2, 0, 8, 2)).gradient,
                        expected.gradient));
}

/// The stride of a dimension of size 1 can have any value, also in a tensor that counts as
/// contiguous.
TEST(CrossEntropyLayoutTest, OneRowOrOneColumnMatchesReference) {
  at::manual_seed(4);
  const at::Tensor rows = at::randn({2, 1, 5, 6});
  const at::Tensor labels = at::randint(5, {2, 1, 6}, at::kByte);
  const at::Tensor row = rows.permute({0, 2, 1, 3});
  ASSERT_NE(row.stride(2), row.size(3) * row.stride(3));
  const auto [loss, gradient] = reference(row, labels);
  EXPECT_NEAR(cross_entropy_value(row, labels).loss.item<float>(), loss, 1e-6);

  const at::Tensor column = rows.permute({0, 2, 3, 1});
  const at::Tensor column_labels = labels.permute({0, 2, 1});
  const LossValue value = cross_entropy_value(column, column_labels);
  EXPECT_NEAR(value.loss.item<float>(), loss, 1e-6);
  EXPECT_LE(value.gradient.squeeze(3).sub(gradient.squeeze(2)).abs().max().item<double>(), 1e-6);
}

TEST(CrossEntropyValueTest, LargeLogitsGiveFiniteLossAndGradient) {
  const at::Tensor logits = at::full({1, 3, 2, 2}, 1e30);
  logits.select(1, 1).fill_(-1e30);
  const LossValue value = cross_entropy_value(logits, at::zeros({1, 2, 2}, at::kByte));
  EXPECT_NEAR(value.loss.item<float>(), std::log(2.0), 1e-6);
  EXPECT_TRUE(value.gradient.isfinite().all().item<bool>());
}

TEST(CrossEntropyValueTest, OutOfRangeLabelGivesNanLoss) {
  const at::Tensor labels = at::zeros({1, 2, 2}, at::kByte);
  labels.fill_(3);
  EXPECT_TRUE(std::isnan(cross_entropy_value(at::zeros({1, 3, 2, 2}), labels).loss.item<float>()));
}

TEST(CrossEntropyValueTest, InvalidShapesAndDtypesThrow) {
  const auto thrown = [](const at::Tensor& logits, const at::Tensor& labels) {
    return thrown_by([&] { cross_entropy_value(logits, labels); });
  };
  const std::string shapes = "Error: cross entropy: logits of";
  EXPECT_THAT(thrown(at::zeros({2, 3, 4, 4}), at::zeros({2, 4, 5}, at::kByte)), HasSubstr(shapes));
  EXPECT_THAT(thrown(at::zeros({2, 3, 4, 4}), at::zeros({1, 4, 4}, at::kByte)), HasSubstr(shapes));
  EXPECT_THAT(thrown(at::zeros({2, 3}), at::zeros({2, 3}, at::kByte)), HasSubstr(shapes));
  EXPECT_THAT(thrown(at::zeros({2, 0}), at::zeros({2}, at::kByte)), HasSubstr("are empty"));
  EXPECT_THAT(thrown(at::zeros({0, 3}), at::zeros({0}, at::kByte)), HasSubstr("are empty"));
  EXPECT_THAT(thrown(at::zeros({2, 3}), at::zeros({2}, at::kFloat)),
              HasSubstr("labels must be uint8 or int64"));
}

TEST(LossTest, CrossEntropyReadsTargetFieldOrSuggestsName) {
  Batch batch(3);
  batch.set("label", at::zeros({2}, at::kByte));
  const Loss loss = cross_entropy("features", "label");
  EXPECT_EQ(loss.input, "features");
  EXPECT_NEAR(loss.compute(at::zeros({2, 4}), batch).loss.item<float>(), std::log(4.0), 1e-6);
  EXPECT_THAT(thrown_by([&] {
                cross_entropy("x", "lable").compute(at::zeros({2, 4}), batch);
              }),
              HasSubstr("unknown batch field 'lable'; did you mean 'label'?"));
}

TEST(LossTest, FewerOutputsThanLabelClassesIsAnError) {
  Batch batch;
  const Loss loss = cross_entropy("x", "label");
  batch.set("label", at::zeros({2}, at::kByte), 5);
  EXPECT_EQ(batch.classes("label"), 5);
  EXPECT_EQ(thrown_by([&] {
              loss.compute(at::zeros({2, 4}), batch);
            }),
            "Error: cross entropy: an output of [2, 4] has 4 classes in its second dimension, but "
            "the labels are of 5: give the model 5 outputs");
  EXPECT_TRUE(loss.compute(at::zeros({2, 6}), batch).loss.isfinite().item<bool>());
  // a stage may set a field without a number of classes
  batch.set("label", at::zeros({2}, at::kByte));
  EXPECT_EQ(batch.classes("label"), 0);
  EXPECT_TRUE(loss.compute(at::zeros({2, 4}), batch).loss.isfinite().item<bool>());
  batch.set("label", at::full({2, 5}, 0.2F));
  EXPECT_THAT(thrown_by([&] {
                loss.compute(at::zeros({2, 4}), batch);
              }),
              HasSubstr("the labels are of 5: give the model 5 outputs"));
  EXPECT_EQ(batch.classes("lable"), 0);
}

TEST(BatchTest, FieldsAreReplacedInPlaceAndKeepTheirOrder) {
  Batch batch(5);
  EXPECT_EQ(batch.number(), 5U);
  batch.set("a", at::zeros({1}));
  batch.set("b", at::zeros({2}));
  batch.set("a", at::zeros({3}));
  ASSERT_EQ(batch.fields().size(), 2U);
  EXPECT_EQ(batch.fields()[0].first, "a");
  EXPECT_EQ(batch.at("a").numel(), 3);
  EXPECT_TRUE(batch.contains("b"));
  EXPECT_FALSE(batch.contains("c"));
}

}  // namespace
}  // namespace slipstream
