#pragma once

#include <nlohmann/json.hpp>
#include <vector>

#include "slipstream/datasets/dataset.h"

namespace slipstream {

/// As manifests of conversions and reports list them.
nlohmann::ordered_json to_json(const std::vector<SkippedSample>& skipped);
/// Those of the key "skipped" of `json`; none without it. Throws Json::exception.
std::vector<SkippedSample> skipped_in(const nlohmann::ordered_json& json);

}  // namespace slipstream
