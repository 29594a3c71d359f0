#pragma once

#include <memory>

#include "slipstream/datasets/dataset.h"

namespace slipstream {

/// synthetic_classification() as folders of files are: of images whose size is not known before
/// they are read.
std::shared_ptr<const Dataset> raw_images(const SyntheticOptions& options);

}  // namespace slipstream
