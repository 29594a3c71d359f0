#include "report/run_log.h"

#include <exception>
#include <system_error>

#include "core/files.h"
#include "core/json_fields.h"
#include "core/plain_message.h"
#include "core/seconds_since.h"
#include "report/curves.h"
#include "report/json.h"
#include "slipstream/core/error.h"

namespace slipstream {
namespace {

namespace fs = std::filesystem;

constexpr const char* kRows = "metrics.jsonl";
constexpr const char* kTable = "metrics.csv";
constexpr const char* kCurves = "curves.svg";
constexpr const char* kFacts = "run.json";

double wall_time_s() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

fs::path made_folder(fs::path folder) {
  std::error_code failed;
  fs::create_directories(folder, failed);
  if (failed)
    throw Refused("cannot create the run folder " + folder.string() + ": " + failed.message() +
                  "; give another one");
  for (const char* name : {kFacts, kRows, kTable, kCurves}) check_writable(folder / name);
  return folder;
}

MetricsTable old_rows(const fs::path& folder, std::uint64_t first_step) {
  std::error_code failed;
  const fs::path rows = folder / kRows;
  if (first_step == 0 || !fs::exists(rows, failed)) return {};
  return MetricsTable::parsed(read_given_text(rows), first_step);
}

Json to_json(const RunFact& fact) {
  if (const auto* words = std::get_if<std::vector<std::string>>(&fact)) return *words;
  if (const auto* text = std::get_if<std::string>(&fact)) return *text;
  if (const auto* count = std::get_if<std::uint64_t>(&fact)) return *count;
  if (const auto* environment = std::get_if<Environment>(&fact)) return to_json(*environment);
  Json json = json::parsed_or_discarded(std::get<JsonText>(fact).text);
  ensure(!json.is_discarded(), "JsonText is JSON");
  return json;
}

std::string to_text(const RunFacts& facts, std::uint64_t first_step) {
  Json json = {{"schema", "slipstream.run_folder"}, {"version", 1}, {"first_step", first_step}};
  for (const auto& [key, fact] : facts) json[key] = to_json(fact);
  return printed(json);
}

/// Uses the folder's own name, not its path.
std::string run_title(const fs::path& folder) {
  std::error_code failed;
  const fs::path whole = fs::weakly_canonical(folder, failed);
  return "Slipstream: " + (failed ? folder : whole).filename().string();
}

}  // namespace

void RowFile::write(const std::string& head, std::size_t rows,
                    const std::function<std::string(std::size_t row)>& line) {
  const auto lines_from = [&](std::size_t row) {
    std::string text;
    for (; row < rows; ++row) text += line(row);
    return text;
  };
  // A new column changes the CSV header, so the whole file must be written again.
  if (head_ != head || !append_to_file(path_, lines_from(rows_)))
    write_own_file(path_, head + lines_from(0));
  head_ = head;
  rows_ = rows;
}

RunLog::RunLog(fs::path folder, std::uint64_t first_step, const RunFacts& facts,
               double draw_every_s)
    : folder_(made_folder(std::move(folder))),
      first_step_(first_step),
      draw_every_s_(draw_every_s),
      facts_(to_text(facts, first_step)),
      table_(old_rows(folder_, first_step)),
      old_rows_(table_.rows().size()),
      json_(folder_ / kRows),
      csv_(folder_ / kTable) {
  write(false);
}

RunLog::~RunLog() { finish(); }

void RunLog::add(std::uint64_t step, double epoch, double time_s, const NamedValues& values) {
  table_.add(step, epoch, time_s, values);
  wall_times_s_.push_back(wall_time_s());
  is_finished_ = false;
  write(false);
}

void RunLog::finish() {
  if (is_finished_) return;
  is_finished_ = true;
  write(true);
}

void RunLog::write(bool is_end) {
  const std::size_t rows = table_.rows().size();
  // Each file is attempted separately, so that a failure of one does not keep the others from being
  // written.
  attempt([&] { keep_folder(); });
  attempt([&] { write_facts(); });
  attempt([&] { json_.write("", rows, [&](std::size_t row) { return table_.json_line(row); }); });
  attempt([&] {
    csv_.write(table_.csv_head(), rows, [&](std::size_t row) { return table_.csv_line(row); });
  });
  attempt([&] { write_events(); });
  attempt([&] { draw(is_end); });
}

void RunLog::keep_folder() {
  std::error_code failed;
  if (fs::is_directory(folder_, failed)) return;
  fs::create_directories(folder_, failed);
  const std::string gone = "the run folder " + folder_.string() + " was removed";
  if (failed) throw Error(gone + " and cannot be created again: " + failed.message());
  report_problem(gone + "; it has been created again, without the event files of earlier starts");
}

void RunLog::write_facts() {
  std::error_code failed;
  if (has_facts_ && fs::exists(folder_ / kFacts, failed)) return;
  write_own_file(folder_ / kFacts, facts_);
  has_facts_ = true;
}

void RunLog::write_events() {
  std::error_code failed;
  if (events_ && !fs::exists(events_->path(), failed)) events_.reset();
  if (!events_) {
    event_rows_ = 0;
    const std::uint64_t first = first_step_ == 0 ? 0 : first_step_ + 1;
    events_.emplace(folder_, wall_time_s(), first);
  }
  for (; event_rows_ < wall_times_s_.size(); ++event_rows_) {
    const std::size_t row = old_rows_ + event_rows_;
    events_->add(wall_times_s_[event_rows_], table_.rows()[row].step, table_.values(row));
  }
}

void RunLog::draw(bool is_end) {
  if (drawn_ && !is_end && seconds_since(*drawn_) < draw_every_s_) return;
  drawn_ = std::chrono::steady_clock::now();
  write_own_file(folder_ / kCurves, curves_svg(table_, run_title(folder_)));
}

void RunLog::attempt(const std::function<void()>& part) {
  try {
    part();
  } catch (const std::exception& error) {
    report_problem(plain_message(error) + "; training continues, and the next row tries again");
  }
}

void RunLog::report_problem(const std::string& problem) {
  if (problem_.empty()) problem_ = printable(problem);
}

}  // namespace slipstream
