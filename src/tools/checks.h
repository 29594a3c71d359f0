#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "datasets/npy_manifest.h"
#include "tools/convert.h"

namespace slipstream {

/// What is wrong with a conversion to any form. Throws Error for an empty data set.
std::vector<std::string> find_problems(const Dataset& dataset, const ConvertOptions& options);

/// Adds what the settings of any form hold only where it is given: a background that is not black,
/// names of classes as printable() gives them, for JSON takes no bytes that are no UTF-8.
void add_more_settings(const Dataset& dataset, const ConvertOptions& options,
                       nlohmann::ordered_json& settings);

/// Throws Refused with all `problems`, unless there are none.
void refuse_conversion(const std::vector<std::string>& problems);

/// Throws Error for a data set of which all samples were `skipped`.
[[noreturn]] void fail_without_samples(const std::vector<SkippedSample>& skipped);

/// check_converted() of each form.
std::vector<std::string> check_shards(const std::filesystem::path& dir,
                                      const CheckOptions& options);
std::vector<std::string> check_npy(const std::filesystem::path& dir, const NpyManifest& manifest,
                                   const CheckOptions& options);

/// Calls `check` for each part, until it is told to stop, and tells of progress.
void check_parts(std::size_t parts, const CheckOptions& options,
                 const std::function<void(std::size_t part)>& check);

}  // namespace slipstream
