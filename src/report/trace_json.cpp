#include <array>
#include <charconv>
#include <limits>
#include <set>

#include "report/json.h"
#include "report/trace_index.h"
#include "report/trace_report.h"

namespace slipstream {
namespace {

constexpr std::array<const char*, 4> kGroups = {"loader", "lanes", "host", "device"};
// With smaller ids, Perfetto takes a row for its group's main thread.
constexpr std::size_t kFirstThread = 11;

std::size_t row_process(TraceRow::Kind kind) {
  switch (kind) {
    case TraceRow::Kind::reader:
    case TraceRow::Kind::worker:
    case TraceRow::Kind::slab:
      return 1;
    case TraceRow::Kind::lane:
      return 2;
    case TraceRow::Kind::host:
      return 3;
    case TraceRow::Kind::stream:
      break;
  }
  return 4;
}

std::string quoted(const std::string& text) {
  return Json(text).dump(-1, ' ', true, Json::error_handler_t::replace);
}

/// Like quoted(), but without the quotes.
std::string escaped(const std::string& text) {
  const std::string whole = quoted(text);
  return whole.substr(1, whole.size() - 2);
}

class Writer {
 public:
  Writer(const TraceRecorder& trace, const TraceFacts& facts) : rows_(trace.rows()) {
    for (const TraceRow* row : rows_)
      for (const TraceEvent& event : row->events()) begin_ns_ = std::min(begin_ns_, event.begin_ns);
    out_ = "{\"displayTimeUnit\": \"ms\", \"otherData\": {";
    for (const auto& [name, value] : facts) {
      if (&name != &facts.front().first) out_ += ", ";
      out_ += quoted(name) + ": " + quoted(value);
    }
    out_ += "}, \"traceEvents\": [";
  }

  std::string written() {
    name_groups();
    for (std::size_t i = 0; i < rows_.size(); ++i) write_row(i);
    write_flows();
    return std::move(out_) + "\n]}\n";
  }

 private:
  void name_groups() {
    std::set<std::size_t> groups;
    for (const TraceRow* row : rows_) groups.insert(row_process(row->kind()));
    for (const std::size_t group : groups) {
      const std::string place = "\"pid\": " + std::to_string(group) + ", \"tid\": 0";
      const std::string name = quoted(kGroups.at(group - 1));
      describe("process", place, name, group);
    }
  }

  void describe(const std::string& what, const std::string& place, const std::string& name,
                std::size_t order) {
    begin_entry();
    out_ += R"({"ph": "M", "name": ")" + what + "_name\", " + place + R"(, "args": {"name": )" +
            name + "}}";
    begin_entry();
    out_ += R"({"ph": "M", "name": ")" + what + "_sort_index\", " + place +
            R"(, "args": {"sort_index": )" + std::to_string(order) + "}}";
  }

  /// Perfetto (version 52) orders rows by "tid", other viewers by the sort index.
  std::string row_ids(std::size_t row) const {
    return "\"pid\": " + std::to_string(row_process(rows_[row]->kind())) +
           ", \"tid\": " + std::to_string(kFirstThread + row);
  }

  void write_row(std::size_t index) {
    const TraceRow& row = *rows_[index];
    const std::string place = row_ids(index);
    describe("thread", place, quoted(row.name()), index);
    // Escaped once per row instead of once per event.
    std::vector<std::string> names;
    for (const std::string& name : row.names()) names.push_back(escaped(name));
    for (const TraceEvent& event : row.events()) {
      begin_entry();
      out_ += R"({"ph": "X", "name": ")" + names[event.name];
      if (event.batch != kNoBatch) add(" #", event.batch);
      out_ += R"(", "cat": ")" + names[event.name] + "\", " + place;
      add_us(", \"ts\": ", event.begin_ns - begin_ns_);
      add_us(", \"dur\": ", event.end_ns - event.begin_ns);
      if (event.batch != kNoBatch) add(", \"args\": {\"batch\": ", event.batch);
      if (event.batch != kNoBatch && event.sample != kNoSample) add(", \"sample\": ", event.sample);
      out_ += event.batch != kNoBatch ? "}}" : "}";
    }
  }

  /// An end of an arrow.
  struct End {
    std::size_t row = 0;
    const TraceEvent* event = nullptr;
  };

  void write_flows() {
    // For each batch: its slab, then its events on the lanes.
    std::map<std::uint64_t, std::vector<End>> ways;
    for (const TraceRow::Kind kind : {TraceRow::Kind::slab, TraceRow::Kind::lane})
      for (std::size_t i = 0; i < rows_.size(); ++i) {
        if (rows_[i]->kind() != kind) continue;
        for (const TraceEvent& event : rows_[i]->events()) ways[event.batch].push_back({i, &event});
      }
    std::uint64_t id = 0;
    for (const auto& [batch, way] : ways)
      for (std::size_t k = 1; k < way.size(); ++k) write_flow(++id, way[k - 1], way[k]);
  }

  void write_flow(std::uint64_t id, const End& from, const End& to) {
    // A slice contains its begin but not its end, so the arrow must leave before the end.
    const std::int64_t leaves_ns = std::max(from.event->begin_ns, from.event->end_ns - 1);
    write_flow_end("\"s\"", id, from.row, leaves_ns);
    write_flow_end(R"("f", "bp": "e")", id, to.row, to.event->begin_ns);
  }

  void write_flow_end(const char* phase, std::uint64_t id, std::size_t row, std::int64_t at_ns) {
    begin_entry();
    out_ += std::string("{\"ph\": ") + phase + R"(, "name": "batch", "cat": "batch", )";
    add("\"id\": ", id);
    out_ += ", " + row_ids(row);
    add_us(", \"ts\": ", at_ns - begin_ns_);
    out_ += "}";
  }

  void begin_entry() {
    out_ += is_first_ ? "\n" : ",\n";
    is_first_ = false;
  }

  void add(const char* before, std::uint64_t value) {
    std::array<char, 24> digits{};
    const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value);
    out_.append(before).append(digits.data(), end.ptr);
  }

  void add_us(const char* before, std::int64_t ns) {
    const auto whole = static_cast<std::uint64_t>(std::max<std::int64_t>(0, ns));
    add(before, whole / 1000);
    const std::string thousandths = std::to_string(1000 + whole % 1000);
    out_.append(".").append(thousandths, 1, 3);
  }

  const std::vector<const TraceRow*> rows_;
  std::int64_t begin_ns_ = std::numeric_limits<std::int64_t>::max();
  std::string out_;
  bool is_first_ = true;
};

}  // namespace

std::string trace_json(const TraceRecorder& trace, const TraceFacts& facts) {
  return Writer(trace, facts).written();
}

}  // namespace slipstream
