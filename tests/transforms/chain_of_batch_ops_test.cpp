#include <gmock/gmock.h>

#include "slipstream/transforms/batch_ops.h"
#include "transforms/chain_text.h"

namespace slipstream {
namespace {

using testing::HasSubstr;

TEST(BatchChainFile, ReadsBatchOperationsAndDefaults) {
  const auto chain = parse_chain(with(
      R"({"op": "to_dtype", "dtype": "float32", "scale": true}, {"op": "one_hot", "label_smoothing": 0.1},
                                         {"name": "blend", "op": "mixup", "alpha": 0.2})"));
  ASSERT_EQ(chain.size(), 3U);
  EXPECT_EQ(chain[1].op.get_if<OneHot>()->label_smoothing, 0.1);
  EXPECT_EQ(chain[2].name, "blend");
  EXPECT_EQ(chain[2].op.get_if<MixUp>()->alpha, 0.2);
  const auto plain = parse_chain(with(R"({"op": "cutmix"}, {"op": "one_hot"})"));
  EXPECT_EQ(plain[0].op.get_if<CutMix>()->alpha, 1);
  EXPECT_EQ(plain[1].op.get_if<OneHot>()->label_smoothing, 0);
}

TEST(BatchChainFile, RoundTripKeepsBatchOperations) {
  const std::vector<NamedOp> chain = {{"box", CutMix{0.25}}, {"soft", OneHot{0.125}}};
  const auto again = parse_chain(to_json_text(chain));
  ASSERT_EQ(again.size(), 2U);
  EXPECT_EQ(again[0].name, "box");
  EXPECT_EQ(*again[0].op.get_if<CutMix>(), CutMix{0.25});
  EXPECT_EQ(*again[1].op.get_if<OneHot>(), OneHot{0.125});
}

TEST(BatchChainFile, InvalidBatchOperationsAreRefused) {
  EXPECT_EQ(
      chain_refusal(
          R"({"op": "mixup"}, {"op": "to_dtype", "dtype": "float32", "scale": true}, {"op": "random_horizontal_flip"})"),
      "Refused: these transforms cannot be read:\n"
      "  transform 'to_dtype' comes after mixup, which is applied to whole batches; put mixup, "
      "cutmix and one_hot last");
  EXPECT_THAT(chain_refusal(R"({"op": "mixup"}, {"op": "cutmix"})"), HasSubstr("not both"));
  EXPECT_THAT(chain_refusal(R"({"op": "mixup", "alpha": 0})"),
              HasSubstr("transforms[0]: mixup: alpha is 0; it must be above 0"));
  EXPECT_THAT(chain_refusal(R"({"op": "cutmix", "alpha": 1e30})"), HasSubstr("at most 1000"));
  EXPECT_THAT(chain_refusal(R"({"op": "one_hot", "label_smoothing": 2})"),
              HasSubstr("label_smoothing is 2"));
  EXPECT_THAT(chain_refusal(R"({"op": "mixup", "aplha": 1})"), HasSubstr("did you mean 'alpha'?"));
  EXPECT_THAT(chain_refusal(R"({"op": "mix_up"})"), HasSubstr("did you mean 'mixup'?"));
}

}  // namespace
}  // namespace slipstream
