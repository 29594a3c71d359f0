#include "slipstream/transforms/batch_ops.h"

#include <gmock/gmock.h>

#include <limits>

#include "slipstream/transforms/transforms.h"
#include "support/thrown.h"

namespace slipstream {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

std::string refusal_of_chain(std::vector<NamedOp> chain) {
  return thrown_by([&] { take_batch_ops(chain); });
}

TEST(BatchOps, AreRemovedFromTheEndOfTheChain) {
  std::vector<NamedOp> chain = {{"flip", RandomHorizontalFlip{}},
                                {"float", ToDtype{.scale = true}},
                                {"soft", OneHot{0.1}},
                                {"box", CutMix{0.5}}};
  const BatchOps ops = take_batch_ops(chain);
  ASSERT_EQ(chain.size(), 2U);
  EXPECT_EQ(chain[1].name, "float");
  EXPECT_FALSE(ops.mixup);
  EXPECT_EQ(ops.cutmix, CutMix{0.5});
  EXPECT_EQ(ops.one_hot, OneHot{0.1});
  EXPECT_TRUE(ops.mixes());
  EXPECT_EQ(ops.name(), "cutmix");
  EXPECT_TRUE(take_batch_ops(chain).empty());
  EXPECT_EQ(chain.size(), 2U);
}

TEST(BatchOps, BatchOperationTouchesNoSampleField) {
  const AnyOp op = MixUp{0.2};
  EXPECT_TRUE(op.is_over_batch());
  EXPECT_FALSE(AnyOp(ToDtype{.scale = true}).is_over_batch());
  EXPECT_EQ(op.name(), "mixup");
  EXPECT_EQ(op.get_if<MixUp>()->alpha, 0.2);
  EXPECT_EQ(op.get_if<CutMix>(), nullptr);
  EXPECT_EQ(op.get_if<ToDtype>(), nullptr);
  for (const FieldKind kind : {FieldKind::image, FieldKind::mask, FieldKind::label})
    EXPECT_FALSE(op.touches(kind));
}

TEST(BatchOps, SampleTransformAfterBatchOperationIsRefused) {
  EXPECT_EQ(
      refusal_of_chain({{"blend", MixUp{}}, {"soft", OneHot{}}, {"flip", RandomHorizontalFlip{}}}),
      "Refused: transform 'flip' comes after mixup, which is applied to whole batches; put "
      "mixup, cutmix and one_hot last");
}

TEST(BatchOps, DuplicatesAndMixUpWithCutMixAreRefused) {
  EXPECT_THAT(refusal_of_chain({{"a", MixUp{}}, {"b", MixUp{}}}),
              StartsWith("Refused: transform 'b' is a second mixup"));
  EXPECT_THAT(refusal_of_chain({{"a", OneHot{}}, {"b", OneHot{}}}),
              HasSubstr("'b' is a second one_hot"));
  EXPECT_THAT(refusal_of_chain({{"a", CutMix{}}, {"s", OneHot{}}, {"b", MixUp{}}}),
              AllOf(StartsWith("Refused: transform 'b'"), HasSubstr("mixup or cutmix, not both")));
}

TEST(BatchOps, ParametersOutOfRangeAreRefused) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  for (const double alpha : {0.0, -1.0, 1000.5, kInfinity, -kInfinity, kNan}) {
    EXPECT_THAT(thrown_by([&] { MixUp{alpha}.validate(); }),
                AllOf(StartsWith("Refused: mixup: alpha is"), HasSubstr("above 0")));
    EXPECT_THAT(thrown_by([&] { CutMix{alpha}.validate(); }), StartsWith("Refused: cutmix: alpha"));
  }
  for (const double smoothing : {-0.1, 1.01, kInfinity, kNan})
    EXPECT_THAT(thrown_by([&] { OneHot{smoothing}.validate(); }),
                StartsWith("Refused: one_hot: label_smoothing is"));
  EXPECT_THAT(refusal_of_chain({{"blend", MixUp{0}}}), StartsWith("Refused: mixup: alpha is 0"));
  MixUp{1000}.validate();
  MixUp{1e-300}.validate();
  OneHot{1}.validate();
}

}  // namespace
}  // namespace slipstream
