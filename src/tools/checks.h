#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "datasets/npy_manifest.h"
#include "tools/convert.h"

namespace slipstream {

/// Returns what is wrong with a conversion to any format. Throws Error for an empty data set.
std::vector<std::string> find_problems(const Dataset& dataset, const ConvertOptions& options);

/// Adds optional settings of any format: a background that is not black, and class names. Names are
/// stored as printable() returns them, because JSON must be valid UTF-8.
void add_more_settings(const Dataset& dataset, const ConvertOptions& options,
                       nlohmann::ordered_json& settings);

/// Throws Refused with all `problems`. Does nothing if there are none.
void refuse_conversion(const std::vector<std::string>& problems);

/// Throws Error because all samples of a data set are in `skipped`.
[[noreturn]] void fail_without_samples(const std::vector<SkippedSample>& skipped);

/// Implementations of check_converted() for each format.
std::vector<std::string> check_shards(const std::filesystem::path& dir,
                                      const CheckOptions& options);
std::vector<std::string> check_npy(const std::filesystem::path& dir, const NpyManifest& manifest,
                                   const CheckOptions& options);

/// Calls `check` for each part, until CheckOptions::stop returns true, and reports progress.
void check_parts(std::size_t parts, const CheckOptions& options,
                 const std::function<void(std::size_t part)>& check);

}  // namespace slipstream
