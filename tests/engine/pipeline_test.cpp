#include "slipstream/engine/pipeline.h"

#include <gmock/gmock.h>

#include "slipstream/datasets/datasets.h"
#include "support/thrown.h"

namespace slipstream::test {
namespace {

using testing::HasSubstr;

Pipeline make_pipeline_with(std::size_t samples, const SampleOptions& options) {
  return pipeline(synthetic_classification({.samples = samples, .size = 8}), options);
}

TEST(PipelineTest, BatchesPerEpochMatchesTheLoader) {
  for (const std::size_t samples : {8U, 10U, 11U})
    for (const bool drop_last : {true, false})
      for (const std::size_t ranks : {1U, 2U}) {
        const Pipeline declared = make_pipeline_with(
            samples, {.batch_size = 4, .rank = {0, ranks}, .drop_last = drop_last});
        const DataLoader loader(declared.dataset(), {}, declared.loader_options({}));
        EXPECT_EQ(declared.batches_per_epoch(), loader.batches_per_epoch())
            << samples << " samples, " << ranks << " ranks, drop_last " << drop_last;
      }
}

TEST(PipelineTest, LoaderHasAllOptionsOfPipelineAndPlan) {
  const SampleOptions samples{.batch_size = 3,
                              .seed = 9,
                              .shuffle = false,
                              .sampler = Sampling::weighted({1, 2, 3, 4, 5, 6}),
                              .rank = {1, 2},
                              .drop_last = false,
                              .decode = {.background = {1, 2, 3}, .strict = true},
                              .on_bad_sample = OnBadSample::skip};
  const LoadingOptions loading{.num_workers = 5,
                               .prefetch_batches = 7,
                               .wire = {{"label", Wire::host}},
                               .read_ahead = {.reads = 2, .chunk_bytes = 4096},
                               .cpus = {0, 2},
                               .cache = CacheOptions{"read", 1000}};
  Plan plan;
  plan.schedule.run_ahead = 4;
  plan.schedule.loader = {loading};
  const DataLoaderOptions options = make_pipeline_with(6, samples).loader_options(plan);
  EXPECT_EQ(static_cast<const SampleOptions&>(options), samples);
  EXPECT_EQ(static_cast<const LoadingOptions&>(options), loading);
  EXPECT_EQ(options.held_batches, 5U);
}

TEST(PipelineTest, BatchesPerEpochThrowsForTooFewSamples) {
  EXPECT_THAT(thrown_by([] { make_pipeline_with(3, {.batch_size = 4}).batches_per_epoch(); }),
              HasSubstr("batch size 4 is larger than the data set: give at most 3"));
  EXPECT_THAT(thrown_by([] {
                make_pipeline_with(7, {.batch_size = 4, .rank = {0, 2}}).batches_per_epoch();
              }),
              HasSubstr("2 ranks with batch size 4"));
}

}  // namespace
}  // namespace slipstream::test
