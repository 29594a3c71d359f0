#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "slipstream/datasets/dataset.h"

namespace slipstream {

/// How `names` differ from `known`, as "class 1 is 'dog', not 'cat'"; "" for equal ones.
std::string difference_of_names(const std::vector<std::string>& names,
                                const std::vector<std::string>& known);

/// The name of the class `number`, or the number where it has none.
std::string name_of_class(std::int64_t number, const std::vector<std::string>& names);

/// Says that samples are all of the class `name`.
std::string one_class_remark(const std::string& name);

/// What the manifest of a conversion in `dir` names; none where it does not, or is not there.
std::vector<std::string> manifest_class_names(const std::filesystem::path& dir);

/// `dataset`, whose field "label" has the classes `names` then. Throws Refused, naming `path`,
/// where it is known to have other classes, or has no labels or masks.
std::shared_ptr<const Dataset> with_class_names(std::shared_ptr<const Dataset> dataset,
                                                const std::vector<std::string>& names,
                                                const std::filesystem::path& path);

}  // namespace slipstream
