#pragma once

#include <memory>

#include "slipstream/datasets/dataset.h"

namespace slipstream {

/// Returns synthetic_classification(), but like a folder of files: the size of an image is not
/// known before it is read.
std::shared_ptr<const Dataset> raw_images(const SyntheticOptions& options);

}  // namespace slipstream
