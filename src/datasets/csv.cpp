#include "datasets/csv.h"

#include <algorithm>

#include "slipstream/core/error.h"

namespace slipstream {

CsvReader::CsvReader(std::string_view text) : text_(text) { take(kUtf8Mark); }

bool CsvReader::take(std::string_view token) {
  if (!text_.starts_with(token)) return false;
  text_.remove_prefix(token.size());
  return true;
}

bool CsvReader::next(std::vector<std::string>& fields) {
  fields.clear();
  while (take("\n") || take("\r\n")) ++line_;
  row_line_ = line_;
  if (text_.empty()) return false;
  do {
    fields.push_back(take("\"") ? quoted_field() : field());
  } while (take(","));
  ++line_;
  if (text_.empty() || take("\n") || take("\r\n")) return true;
  throw Error("there is text after a closing quote; write quotes inside a quoted field twice");
}

std::string CsvReader::field() {
  std::size_t end = std::min(text_.find_first_of(",\n\""), text_.size());
  if (end < text_.size() && text_[end] == '"') {
    throw Error(
        "there is a quote inside an unquoted field; quote the whole field and write quotes inside "
        "it twice");
  }
  const bool is_line_end = end < text_.size() && text_[end] == '\n';
  if (is_line_end && end > 0 && text_[end - 1] == '\r') --end;
  std::string value(text_.substr(0, end));
  text_.remove_prefix(end);
  return value;
}

std::string CsvReader::quoted_field() {
  std::string value;
  while (true) {
    const std::size_t end = text_.find('"');
    if (end == std::string_view::npos) throw Error("a quote is not closed");
    value += text_.substr(0, end);
    text_.remove_prefix(end + 1);
    if (!take("\"")) break;
    value += '"';
  }
  // Quoted fields may contain line ends, which count for line numbers in messages.
  line_ += static_cast<std::size_t>(std::count(value.begin(), value.end(), '\n'));
  return value;
}

}  // namespace slipstream
