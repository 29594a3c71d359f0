#pragma once

#include <nlohmann/json.hpp>
#include <vector>

#include "slipstream/datasets/dataset.h"

namespace slipstream {

/// Returns skipped samples as JSON for manifests and reports.
nlohmann::ordered_json to_json(const std::vector<SkippedSample>& skipped);
/// Reads the key "skipped" of `json`. Returns nothing if it is missing. Throws Json::exception.
std::vector<SkippedSample> skipped_in(const nlohmann::ordered_json& json);

}  // namespace slipstream
