#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

namespace slipstream {

/// The values of one row of a list in the requested columns.
struct ListRow {
  std::size_t line = 0;
  std::vector<std::string> values;
};

/// Reads `list`, which is CSV or JSON lines according to its extension, as listed() specifies.
/// `columns` are distinct.
std::vector<ListRow> read_list(const std::filesystem::path& list,
                               const std::vector<std::string>& columns);

/// Throws Error "'LIST', line LINE: WHAT".
[[noreturn]] void fail_at_line(const std::filesystem::path& list, std::size_t line,
                               const std::string& what);

}  // namespace slipstream
