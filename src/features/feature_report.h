#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "features/feature_folder.h"

namespace slipstream {

/// Describes the keys of a folder as text: their sizes, fields, dates, and what they depend on.
/// Long values are shortened.
std::string feature_keys_text(const std::filesystem::path& folder,
                              const std::vector<FeatureKey>& keys);
/// Describes the keys of a folder as a JSON list.
std::string feature_keys_json(const std::vector<FeatureKey>& keys);

}  // namespace slipstream
