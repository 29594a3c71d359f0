#include "slipstream/engine/pipeline.h"

#include <gmock/gmock.h>

#include "slipstream/datasets/datasets.h"
#include "support/thrown.h"

namespace slipstream::test {
namespace {

using testing::HasSubstr;

Pipeline over(std::size_t samples, const PipelineOptions& options) {
  return pipeline(synthetic_classification({.samples = samples, .size = 8}), options);
}

TEST(PipelineTest, AnEpochHasAsManyBatchesAsItsLoader) {
  for (const std::size_t samples : {8U, 10U, 11U})
    for (const bool drop_last : {true, false})
      for (const std::size_t ranks : {1U, 2U}) {
        const Pipeline declared =
            over(samples, {.batch_size = 4, .rank = {0, ranks}, .drop_last = drop_last});
        const DataLoader loader(declared.dataset(), {}, declared.loader_options({}));
        EXPECT_EQ(declared.batches_per_epoch(), loader.batches_per_epoch())
            << samples << " samples, " << ranks << " ranks, drop_last " << drop_last;
      }
}

TEST(PipelineTest, ABatchThatTheDataCannotFillHasNoEpoch) {
  EXPECT_THAT(thrown_by([] { over(3, {.batch_size = 4}).batches_per_epoch(); }),
              HasSubstr("batch size 4 is larger than the data set: give at most 3"));
  EXPECT_THAT(thrown_by([] {
                over(7, {.batch_size = 4, .rank = {0, 2}}).batches_per_epoch();
              }),
              HasSubstr("2 ranks with batch size 4"));
}

}  // namespace
}  // namespace slipstream::test
