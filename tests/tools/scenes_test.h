#pragma once

#include <gtest/gtest.h>

#include <memory>

#include "slipstream/datasets/datasets.h"
#include "support/temporary_folder.h"
#include "tools/make_data.h"

namespace slipstream {

/// Has a folder of 23 scenes of two sizes, with masks.
class ScenesTest : public testing::Test {
 protected:
  static constexpr std::size_t kSamples = 23;

  void SetUp() override {
    MakeDataOptions options;
    options.samples = kSamples;
    options.sizes = {24, 40};
    make_segmentation_data(scenes(), options);
  }

  std::filesystem::path scenes() const { return folder_.path() / "scenes"; }
  std::shared_ptr<const Dataset> source() const { return segmentation_folder(scenes(), 10); }

  TemporaryFolder folder_;
};

}  // namespace slipstream
