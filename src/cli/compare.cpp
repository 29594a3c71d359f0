#include <CLI/CLI.hpp>
#include <filesystem>
#include <iostream>
#include <memory>
#include <set>

#include "cli/verbs.h"
#include "core/files.h"
#include "report/report.h"

namespace slipstream {
namespace {

std::string stem(const std::string& path) { return std::filesystem::path(path).stem().string(); }

/// Returns the names of files without folder and extension, unless two would be equal.
std::vector<std::string> short_names(const std::vector<std::string>& paths) {
  std::vector<std::string> names;
  std::set<std::string> different;
  for (const std::string& path : paths) different.insert(names.emplace_back(stem(path)));
  return different.size() == paths.size() ? names : paths;
}

ComparisonRow read_row(const std::string& name, const std::string& path) {
  const std::string text = read_given_text(path);
  try {
    return comparison_row(name, text);
  } catch (const Error& error) {
    throw Refused("'" + path + "': " + error.what() + " (give reports that train --json wrote)");
  }
}

int compare(const std::vector<std::string>& paths) {
  std::vector<ComparisonRow> rows;
  const std::vector<std::string> names = short_names(paths);
  for (std::size_t i = 0; i < paths.size(); ++i) rows.push_back(read_row(names[i], paths[i]));
  std::cout << printable(comparison_table(rows));
  for (const ComparisonRow& row : rows)
    if (row.plan.numerics == rows.front().plan.numerics && row.digest != rows.front().digest &&
        row.plan.numerics.deterministic)
      return kNo;
  return kDone;
}

}  // namespace

void add_compare(CLI::App& app, Cli&, Verb& chosen) {
  auto paths = std::make_shared<std::vector<std::string>>();
  CLI::App* command = app.add_subcommand(
      "compare", "Compares reports of runs (exit code 3 if deterministic runs differ)");
  command->add_option("reports", *paths, "JSON files that train --json wrote")->required();
  command->callback([=, &chosen] { chosen = [paths] { return compare(*paths); }; });
}

}  // namespace slipstream
