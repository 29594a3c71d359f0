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
  /// Index of the name, and the value (NaN for null).
  std::vector<std::pair<std::size_t, double>> values;
};

/// The metrics that a run has reported so far, one row per report. Names keep the order in which
/// they first occurred. Not thread-safe.
class MetricsTable {
 public:
  /// Parses rows up to `last_step` from earlier output of json_line(). Other lines, and a last line
  /// without its line end, are skipped.
  static MetricsTable parsed(std::string_view lines, std::uint64_t last_step);

  /// Adds a row. If a name occurs more than once in `values`, the last value is used. Throws
  /// std::logic_error for a value named step, epoch or time_s.
  void add(std::uint64_t step, double epoch, double time_s, const NamedValues& values);

  const std::vector<std::string>& names() const { return names_; }
  const std::vector<MetricsRow>& rows() const { return rows_; }

  /// Returns the values of a row with their names.
  NamedValues values(std::size_t row) const;

  /// Returns a row as one JSON object and a line end. Values that are not finite are null.
  std::string json_line(std::size_t row) const;
  /// Returns the names of the columns: step, epoch, time_s and names().
  std::string csv_head() const;
  /// Returns the row's cells for the columns of csv_head(). Values that are missing or not finite
  /// are empty.
  std::string csv_line(std::size_t row) const;

 private:
  std::size_t column_index(const std::string& name);

  std::vector<std::string> names_;
  std::vector<MetricsRow> rows_;
};

}  // namespace slipstream
