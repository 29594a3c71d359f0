#include "core/trace.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "slipstream/core/error.h"

namespace slipstream {

std::int64_t trace_now_ns() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
}

TraceRow::TraceRow(Kind kind, std::string name, std::vector<std::string> names,
                   std::size_t capacity)
    : kind_(kind),
      name_(std::move(name)),
      names_(std::move(names)),
      capacity_(capacity),
      events_(std::make_unique<TraceEvent[]>(capacity)) {}

void TraceRow::add(const TraceEvent& event) {
  ensure(event.name < names_.size(), "an event has one of its row's names");
  // Only one thread adds, so it may read its own counters relaxed. The release stores publish the
  // event to readers that run at the same time.
  const std::size_t size = size_.load(std::memory_order_relaxed);
  if (size < capacity_) {
    events_[size] = event;
    size_.store(size + 1, std::memory_order_release);
    return;
  }
  const std::uint64_t dropped = dropped_.load(std::memory_order_relaxed);
  if (dropped == 0) dropped_from_ns_.store(event.begin_ns, std::memory_order_relaxed);
  dropped_.store(dropped + 1, std::memory_order_release);
}

std::span<const TraceEvent> TraceRow::events() const {
  return {events_.get(), size_.load(std::memory_order_acquire)};
}

TraceRow& TraceRecorder::row(TraceRow::Kind kind, const std::string& name,
                             const std::vector<std::string>& names) {
  Lock lock(mutex_);
  for (const auto& row : rows_)
    if (row->kind() == kind && row->name() == name && row->names() == names) return *row;
  rows_.push_back(std::make_unique<TraceRow>(kind, name, names, options_.events_per_row));
  return *rows_.back();
}

void TraceRecorder::add_row(TraceRow::Kind kind, const std::string& name,
                            std::vector<std::string> names, std::span<const TraceEvent> events) {
  auto row = std::make_unique<TraceRow>(kind, name, std::move(names), events.size());
  for (const TraceEvent& event : events) row->add(event);
  Lock lock(mutex_);
  rows_.push_back(std::move(row));
}

std::vector<const TraceRow*> TraceRecorder::rows() const {
  std::vector<const TraceRow*> rows;
  {
    Lock lock(mutex_);
    for (const auto& row : rows_) rows.push_back(row.get());
  }
  std::stable_sort(rows.begin(), rows.end(),
                   [](const TraceRow* a, const TraceRow* b) { return a->kind() < b->kind(); });
  return rows;
}

}  // namespace slipstream
