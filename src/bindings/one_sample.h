#pragma once

#include <torch/csrc/utils/pybind.h>

#include <functional>
#include <string>
#include <vector>

#include "slipstream/datasets/dataset.h"
#include "slipstream/transforms/op.h"

namespace slipstream {

/// Sample `key.sample`, read, decoded and behind the chain; `done` is called behind each operation,
/// with its place. Throws UnfitSample where another sample might do, else Error; both name step and
/// sample, and say `note` of it.
Sample made_sample(const Dataset& dataset, const std::vector<NamedOp>& chain, const RandomKey& key,
                   const std::string& note,
                   const std::function<void(std::size_t, const Sample&)>& done);

void add_samples(pybind11::module_& module);

}  // namespace slipstream
