#pragma once

#include <string>
#include <vector>

#include "slipstream/loader/data_loader.h"

namespace slipstream {

inline constexpr std::size_t kSlabAlignment = 256;
/// RandomKey holds the operation's index in six bits.
inline constexpr std::size_t kMaxTransforms = 64;

/// Names of the host steps: read, decode, each transform, collate.
std::vector<std::string> step_names(const std::vector<NamedOp>& transforms);

/// The layout, or problems added to `problems`, each with its remedy.
SlabLayout plan_slab(const Dataset& dataset, const std::vector<NamedOp>& transforms,
                     const DataLoaderOptions& options, std::vector<std::string>& problems);

/// Those of the transforms that the loader's threads do.
std::vector<NamedOp> on_host(std::vector<NamedOp> transforms, std::size_t on_device);

}  // namespace slipstream
