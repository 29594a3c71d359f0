#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "slipstream/core/array.h"

namespace slipstream {

/// What says which data set a disk cache is of: JSON.
std::string disk_manifest(std::size_t samples, const std::vector<FieldSpec>& fields,
                          const std::string& identity);

/// Throws Refused, saying what differs, unless the file at `path` holds `expected`; Error where it
/// cannot be read.
void check_disk_manifest(const std::filesystem::path& path, const std::string& expected);

}  // namespace slipstream
