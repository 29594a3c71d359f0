#include "report/sections.h"

#include <algorithm>
#include <cmath>

#include "core/figures.h"
#include "report/doctor_words.h"
#include "slipstream/core/error.h"

namespace slipstream {
namespace {

constexpr double kTextBarWidth = 30;

/// Returns a bar of text such as "####......": the length as a share of the longest one.
std::string text_bar(const std::vector<Bar>& bars, double longest) {
  if (bars.empty() || !is_there(bars[0].length) || !(longest > 0)) return "";
  const double share = std::clamp(bars[0].length.value / longest, 0.0, 1.0);
  const auto full = static_cast<std::size_t>(std::lround(kTextBarWidth * share));
  return std::string(full, '#') + std::string(static_cast<std::size_t>(kTextBarWidth) - full, '.');
}

/// Formats a table. Indents each line by two blanks; line ends in cells become blanks.
std::string table_text(const Section& section) {
  std::vector<std::vector<std::string>> rows = section.rows;
  double longest = 0;
  for (const auto& bars : section.bars)
    if (!bars.empty() && is_there(bars[0].length))
      longest = std::max(longest, bars[0].length.value);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    auto& row = rows[i];
    if (section.text_bars > 0)
      row.insert(row.begin() + static_cast<std::ptrdiff_t>(section.text_bars),
                 i == 0 ? "" : text_bar(section.bars[i - 1], longest));
    for (std::string& cell : row) {
      cell = printable(cell);
      std::replace_if(
          cell.begin(), cell.end(), [](char c) { return c == '\n' || c == '\t'; }, ' ');
    }
    row.insert(row.begin(), "");
  }
  std::vector<std::size_t> columns;
  for (const std::size_t column : section.right)
    columns.push_back(column + (section.text_bars > 0 && column >= section.text_bars ? 2 : 1));
  return aligned_table(rows, columns);
}

std::string item_text(const Item& item, const std::string& start) {
  std::string text = start + printable(item.text) + "\n";
  for (std::size_t end = text.find('\n'); end + 1 < text.size(); end = text.find('\n', end + 1))
    text.insert(end + 1, std::string(start.size(), ' '));
  return text;
}

Json bars_json(const std::vector<Bar>& bars) {
  return json_list(bars, [](const Bar& bar) -> Json {
    return {{"length", to_json(bar.length)}, {"name", printable(bar.name)}, {"look", bar.look}};
  });
}

Json item_json(const Item& item) {
  return {{"text", printable(item.text)}, {"bars", bars_json(item.bars)}};
}

}  // namespace

std::string to_text(const std::vector<Section>& sections) {
  std::string text;
  for (const Section& section : sections) {
    if (section.is_for_page) continue;
    std::string body = section.rows.empty() ? "" : table_text(section);
    std::size_t rank = 0;
    for (const Item& item : section.items)
      body += item_text(item, section.is_numbered ? "  " + std::to_string(++rank) + ". " : "  - ");
    for (const std::string& line : section.lines)
      if (!line.empty()) body += "  " + printable(line) + "\n";
    if (!body.empty() || !section.tone.empty())
      text += "\n" + printable(section.title) + "\n" + body;
  }
  return text;
}

Json to_json(const Section& section) {
  const auto texts = [](const std::vector<std::string>& words) {
    return json_list(words, [](const std::string& each) { return Json(printable(each)); });
  };
  return {{"title", printable(section.title)},
          {"note", printable(section.note)},
          {"tone", section.tone},
          {"lines", texts(section.lines)},
          {"items", json_list(section.items, item_json)},
          {"is_numbered", section.is_numbered},
          {"rows", json_list(section.rows, texts)},
          {"right", section.right},
          {"bars", json_list(section.bars, bars_json)},
          {"top", number(section.top)},
          {"mark", number(section.mark)},
          {"is_timeline", section.is_timeline}};
}

}  // namespace slipstream
