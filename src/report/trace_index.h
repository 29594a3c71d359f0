#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "core/trace.h"

namespace slipstream {

inline std::vector<const TraceRow*> find_rows(const TraceRecorder& trace, TraceRow::Kind kind) {
  std::vector<const TraceRow*> rows = trace.rows();
  std::erase_if(rows, [kind](const TraceRow* row) { return row->kind() != kind; });
  return rows;
}

/// Indices of the first and the last event of a batch in one row of the trace.
struct EventRange {
  std::size_t first = 0;
  std::size_t last = 0;
};

inline std::map<std::uint64_t, EventRange> events_by_batch(const TraceRow& row) {
  std::map<std::uint64_t, EventRange> ranges;
  const auto events = row.events();
  for (std::size_t i = 0; i < events.size(); ++i) {
    if (events[i].batch == kNoBatch) continue;
    ranges.try_emplace(events[i].batch, EventRange{i, i}).first->second.last = i;
  }
  return ranges;
}

inline std::string event_label(const TraceRow& row, const TraceEvent& event) {
  const std::string& name = row.names()[event.name];
  return event.batch == kNoBatch ? name : name + " #" + std::to_string(event.batch);
}

}  // namespace slipstream
