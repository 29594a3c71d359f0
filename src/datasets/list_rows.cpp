#include "datasets/list_rows.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>

#include "core/json_fields.h"
#include "core/number_text.h"
#include "datasets/csv.h"
#include "datasets/folders.h"
#include "datasets/scan_watch.h"
#include "slipstream/codecs/image.h"
#include "slipstream/core/error.h"

namespace slipstream {
namespace {

namespace fs = std::filesystem;

using Rows = std::vector<ListRow>;
using Names = std::vector<std::string>;

std::vector<std::size_t> column_positions(const fs::path& list, const Names& columns,
                                          const Names& header) {
  std::vector<std::size_t> positions;
  for (const std::string& column : columns) {
    const auto found = std::find(header.begin(), header.end(), column);
    if (found == header.end()) {
      throw Refused("'" + list.string() + "': " + unknown_name("column", column, header));
    }
    positions.push_back(static_cast<std::size_t>(found - header.begin()));
  }
  return positions;
}

/// Throws Refused for a repeated column name. Empty names may repeat, because no option can refer
/// to them.
void refuse_twins(const fs::path& list, const Names& header) {
  for (auto name = header.begin(); name != header.end(); ++name)
    if (!name->empty() && std::find(name + 1, header.end(), *name) != header.end())
      throw Refused("'" + list.string() + "' has two columns '" + *name +
                    "': rename or remove one of them");
}

Rows read_csv(const fs::path& list, std::string_view text, const Names& columns) {
  CsvReader reader(text);
  Rows rows;
  Names fields;
  try {
    if (!reader.next(fields)) return rows;
    const Names header = fields;
    refuse_twins(list, header);
    const std::vector<std::size_t> positions = column_positions(list, columns, header);
    while (reader.next(fields)) {
      ScanWatch::poll();
      if (fields.size() != header.size()) {
        throw Error("it has " + format_count(fields.size(), "field") + ", the first row has " +
                    std::to_string(header.size()) + "; quote fields that hold commas");
      }
      ListRow row{reader.line(), {}};
      for (const std::size_t position : positions) row.values.push_back(fields[position]);
      rows.push_back(std::move(row));
    }
  } catch (const Refused&) {
    throw;
  } catch (const Error& error) {
    fail_at_line(list, reader.line(), error.what());
  }
  return rows;
}

std::string read_column(const json::Json& object, const std::string& key) {
  const auto found = object.find(key);
  if (found == object.end()) throw Error("it has no \"" + key + "\"");
  if (found->is_string()) return found->get<std::string>();
  if (found->is_number_integer()) return found->dump();
  throw Error("\"" + key + "\" is " + found->type_name() + ": give a string or a whole number");
}

ListRow parse_json_line(std::string_view text, std::size_t line, const Names& columns) {
  const auto object = json::parsed_or_discarded(text);
  if (object.is_discarded()) throw Error("it is not JSON; write one object per line");
  if (!object.is_object()) throw Error("it is not a JSON object; write one object per line");
  ListRow row{line, {}};
  for (const std::string& column : columns) row.values.push_back(read_column(object, column));
  return row;
}

Rows read_json_lines(const fs::path& list, std::string_view text, const Names& columns) {
  Rows rows;
  if (text.starts_with(kUtf8Mark)) text.remove_prefix(kUtf8Mark.size());
  for (std::size_t line = 1; !text.empty(); ++line) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view content = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    ScanWatch::poll();
    if (content.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    try {
      rows.push_back(parse_json_line(content, line, columns));
    } catch (const Error& error) {
      fail_at_line(list, line, error.what());
    }
  }
  return rows;
}

}  // namespace

void fail_at_line(const fs::path& list, std::size_t line, const std::string& what) {
  throw Error("'" + list.string() + "', line " + std::to_string(line) + ": " + what);
}

Rows read_list(const fs::path& list, const Names& columns) {
  const std::string extension = lower_extension(list);
  const bool is_csv = extension == ".csv";
  if (!is_csv && extension != ".jsonl" && extension != ".ndjson" && extension != ".json") {
    throw Refused("the file name '" + list.string() +
                  "' ends with neither .csv, .jsonl, .ndjson nor .json: rename a CSV file to .csv, "
                  "and a file with one JSON object per line to .jsonl");
  }
  HostArray file;
  try {
    read_file(list, file);
  } catch (const Error& error) {
    throw Refused(error.what());
  }
  const ConstArray bytes = file.view();
  const std::string_view text(bytes.as<char>(), bytes.bytes());
  Rows rows = (is_csv ? read_csv : read_json_lines)(list, text, columns);
  if (rows.empty()) throw Error("the list '" + list.string() + "' has no samples; add rows to it");
  return rows;
}

}  // namespace slipstream
