#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace slipstream {

/// The byte order mark that some programs write before UTF-8 text.
inline constexpr std::string_view kUtf8Mark = "\xef\xbb\xbf";

/// Reads rows of RFC 4180: comma-separated fields. "Quoted" fields may contain commas, line ends
/// and doubled quotes. Lines end with \n or \r\n; the last line end is optional. A byte order mark
/// at the beginning and empty lines are skipped.
class CsvReader {
 public:
  /// `text` must outlive the reader.
  explicit CsvReader(std::string_view text);

  /// Reads the next row into `fields`. Returns false if there is none. Throws Error for an unclosed
  /// quote, a quote inside an unquoted field, and text after a closing quote.
  bool next(std::vector<std::string>& fields);
  /// First line, counted from 1, of the last row or of the row that was refused.
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
