#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

namespace slipstream {

/// What stands in a list under the columns that were asked for.
struct ListRow {
  std::size_t line = 0;
  std::vector<std::string> values;
};

/// Reads `list`, CSV or JSON lines by its extension, as listed() says. `columns` are different.
std::vector<ListRow> read_list(const std::filesystem::path& list,
                               const std::vector<std::string>& columns);

/// Throws Error "'LIST', line LINE: WHAT".
[[noreturn]] void fail_at_line(const std::filesystem::path& list, std::size_t line,
                               const std::string& what);

}  // namespace slipstream
