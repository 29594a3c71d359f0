#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "slipstream/core/array.h"

namespace slipstream {

/// Returns the JSON that identifies the data set of a disk cache.
std::string disk_manifest(std::size_t samples, const std::vector<FieldSpec>& fields,
                          const std::string& identity);

/// Throws Refused, listing the differences, unless the file at `path` holds `expected`. Throws
/// Error if it cannot be read.
void check_disk_manifest(const std::filesystem::path& path, const std::string& expected);

}  // namespace slipstream
