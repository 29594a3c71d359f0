#include "core/figures.h"
#include "report/report.h"

namespace slipstream {
namespace {

std::string gain(const ComparisonRow& row, const ComparisonRow& first) {
  if (row.steps_per_second.n == 0 || first.steps_per_second.n == 0) return "-";
  const Measured& rate = row.steps_per_second;
  const Measured& other = first.steps_per_second;
  const bool overlap = rate.low <= other.high && other.low <= rate.high;
  return fixed(rate.value / other.value, 2) + "x" + (overlap ? " (within the noise)" : "");
}

std::string digest_against(const ComparisonRow& row, const ComparisonRow& first) {
  if (row.plan.numerics != first.plan.numerics) return "not comparable: different numerics";
  return row.digest == first.digest ? "equal, bit for bit" : "DIFFERENT";
}

/// Describes how the two runs' work differs, or returns "" if it does not.
std::string difference(const ComparisonRow& row, const ComparisonRow& first) {
  std::string text;
  for (const auto& [key, value] : row.work)
    for (const auto& [other_key, other_value] : first.work)
      if (key == other_key && value != other_value)
        text.append(text.empty() ? "" : ", ")
            .append(printable_name(key))
            .append(" ")
            .append(printable_name(other_value))
            .append(" and ")
            .append(printable_name(value));
  return text;
}

/// Returns the warnings of a row, or "" if there are none.
std::string warning_line(const ComparisonRow& row) {
  std::string line;
  for (const std::string& warning : row.warnings)
    line += (line.empty() ? "" : "; ") + printable_name(warning);
  return line.empty() ? "" : "warning: " + printable_name(row.name) + ": " + line + "\n";
}

}  // namespace

std::string comparison_table(const std::vector<ComparisonRow>& rows) {
  std::vector<std::vector<std::string>> cells = {
      {"report", "plan", "steps/s", "gain", "input wait", "loss", "weights and losses"}};
  for (const ComparisonRow& row : rows) {
    const bool first = &row == &rows.front();
    const std::string waited = fixed(100 * row.input_wait_share, 1);
    cells.push_back({row.name, row.plan.schedule.mode + (row.is_auto ? " (auto)" : ""),
                     with_interval(row.steps_per_second), first ? "" : gain(row, rows.front()),
                     waited == "-" ? waited : waited + " %",
                     loss_figure(row.first_loss) + " -> " + loss_figure(row.final_loss),
                     first ? "the reference" : digest_against(row, rows.front())});
  }
  std::string table = aligned_table(cells, {3, 4});
  for (const ComparisonRow& row : rows) {
    const std::string other = difference(row, rows.front());
    if (!other.empty())
      table += "not the same run: " + other + " (" + printable_name(rows.front().name) + ", " +
               printable_name(row.name) + ")\n";
  }
  for (const ComparisonRow& row : rows) table += warning_line(row);
  return table;
}

}  // namespace slipstream
