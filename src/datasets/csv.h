#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace slipstream {

/// What some programs put ahead of text in UTF-8.
inline constexpr std::string_view kUtf8Mark = "\xef\xbb\xbf";

/// Rows of RFC 4180: fields between commas; "quoted" ones may hold commas, line ends and doubled
/// quotes. Lines end in \n or \r\n, the last one perhaps in nothing. A mark of UTF-8 at the
/// beginning is passed over, and so are empty lines.
class CsvReader {
 public:
  /// `text` must outlive the reader.
  explicit CsvReader(std::string_view text);

  /// Whether there was one more row, which is in `fields` then. Throws Error for a quote that is
  /// not closed, one within an unquoted field, and what follows a closing one.
  bool next(std::vector<std::string>& fields);
  /// Where the last row, or the one that was refused, begins: from 1.
  std::size_t line() const { return row_line_; }

 private:
  bool take(std::string_view token);
  std::string field();
  std::string quoted_field();

  std::string_view text_;
  std::size_t line_ = 1;
  std::size_t row_line_ = 1;
};

}  // namespace slipstream
