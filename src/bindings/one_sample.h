#pragma once

#include <torch/csrc/utils/pybind.h>

#include <functional>
#include <string>
#include <vector>

#include "slipstream/datasets/dataset.h"
#include "slipstream/transforms/op.h"

namespace slipstream {

/// Returns sample `key.sample` after reading, decoding and all operations of the chain. Calls
/// `done` with the index of each operation after it. Throws UnfitSample if another sample might
/// succeed, otherwise Error. Both messages contain the step, the sample and `note`.
Sample made_sample(const Dataset& dataset, const std::vector<NamedOp>& chain, const RandomKey& key,
                   const std::string& note,
                   const std::function<void(std::size_t, const Sample&)>& done);

void add_samples(pybind11::module_& module);

}  // namespace slipstream
