#pragma once

#include <string>
#include <vector>

#include "slipstream/loader/data_loader.h"

namespace slipstream {

inline constexpr std::size_t kSlabAlignment = 256;
/// RandomKey stores the index of an operation in six bits.
inline constexpr std::size_t kMaxTransforms = 64;

/// Returns the names of the host steps: read, decode, each transform, collate.
std::vector<std::string> step_names(const std::vector<NamedOp>& transforms);

/// Returns the layout, or adds problems to `problems`, each with its remedy.
SlabLayout plan_slab(const Dataset& dataset, const std::vector<NamedOp>& transforms,
                     const DataLoaderOptions& options, std::vector<std::string>& problems);

/// Returns the transforms that the loader's threads apply.
std::vector<NamedOp> on_host(std::vector<NamedOp> transforms, std::size_t on_device);

}  // namespace slipstream
