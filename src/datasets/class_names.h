#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "slipstream/datasets/dataset.h"

namespace slipstream {

/// Describes how `names` differ from `known`, such as "class 1 is 'dog', not 'cat'". Returns "" if
/// they are equal.
std::string difference_of_names(const std::vector<std::string>& names,
                                const std::vector<std::string>& known);

/// Returns the name of class `number`, or the number if it has none.
std::string name_of_class(std::int64_t number, const std::vector<std::string>& names);

/// Returns a remark that all samples are of the class `name`.
std::string one_class_remark(const std::string& name);

/// Returns the class names in the manifest of a conversion in `dir`, or none if there is no
/// manifest or it has no names.
std::vector<std::string> manifest_class_names(const std::filesystem::path& dir);

/// Returns `dataset` with the classes `names` for its field "label". Throws Refused, naming `path`,
/// if it is known to have other classes, or has no labels or masks.
std::shared_ptr<const Dataset> with_class_names(std::shared_ptr<const Dataset> dataset,
                                                const std::vector<std::string>& names,
                                                const std::filesystem::path& path);

}  // namespace slipstream
