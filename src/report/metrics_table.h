#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace slipstream {

using NamedValues = std::vector<std::pair<std::string, double>>;

struct MetricsRow {
  std::uint64_t step = 0;
  double epoch = 0;
  double time_s = 0;
  std::vector<std::pair<std::size_t, double>> values;  ///< which of the names; NaN for null
};

/// What a run told of itself so far: a row for each time it did. Names keep the order in which they
/// first came.
class MetricsTable {
 public:
  /// The rows of up to `last_step` in what json_line() gave before. Lines that are none of it, and
  /// a last one without its end, are left out.
  static MetricsTable parsed(std::string_view lines, std::uint64_t last_step);

  /// Throws std::logic_error for a value named step, epoch or time_s. Of values of one name in
  /// `values` the last one counts.
  void add(std::uint64_t step, double epoch, double time_s, const NamedValues& values);

  const std::vector<std::string>& names() const { return names_; }
  const std::vector<MetricsRow>& rows() const { return rows_; }

  /// Of a row, with its names.
  NamedValues values(std::size_t row) const;

  /// One JSON object and a line end; what is not finite is null.
  std::string json_line(std::size_t row) const;
  /// The names of the columns: step, epoch, time_s and names().
  std::string csv_head() const;
  /// The row's cells below csv_head(); what is not there or not finite is empty.
  std::string csv_line(std::size_t row) const;

 private:
  std::size_t column_index(const std::string& name);

  std::vector<std::string> names_;
  std::vector<MetricsRow> rows_;
};

}  // namespace slipstream
