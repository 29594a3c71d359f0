#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/sync.h"

namespace slipstream {

/// Returns the current time in ns on the clock of all times in a trace: the host's monotonic clock,
/// which std::chrono::steady_clock also reads.
std::int64_t trace_now_ns();

inline constexpr std::uint64_t kNoBatch = std::numeric_limits<std::uint64_t>::max();
inline constexpr std::uint64_t kNoSample = std::numeric_limits<std::uint64_t>::max();

/// An activity with its begin and end times, in ns.
struct TraceEvent {
  std::size_t name = 0;            ///< index into TraceRow::names()
  std::uint64_t batch = kNoBatch;  ///< numbered through all epochs and runs
  std::uint64_t sample = kNoSample;
  std::int64_t begin_ns = 0;
  std::int64_t end_ns = 0;
};

/// Consecutive activities of one thread, slab, lane or stream. Holds a fixed number of events; once
/// it is full, further events are counted but not kept. add() is called by one thread at a time,
/// does not allocate and never blocks. All other functions may be called from any thread, also
/// during add().
class TraceRow {
 public:
  /// The kinds, in the order in which reports show them.
  enum class Kind : std::uint8_t {
    reader,  ///< a thread that reads ahead of the workers
    worker,  ///< a loader thread: each step of each sample
    slab,    ///< a slab of the loader: from its first sample to its last
    lane,    ///< each step of each batch: on a GPU, when the device did it
    host,    ///< for a GPU lane: when the host enqueued each step
    stream   ///< kernels and copies on a stream of the GPU
  };

  TraceRow(Kind kind, std::string name, std::vector<std::string> names, std::size_t capacity);

  Kind kind() const { return kind_; }
  const std::string& name() const { return name_; }
  const std::vector<std::string>& names() const { return names_; }

  void add(const TraceEvent& event);
  /// Returns the events kept so far, in the order in which they were added.
  std::span<const TraceEvent> events() const;
  /// Number of events that were not kept because the row was full.
  std::uint64_t dropped() const { return dropped_.load(std::memory_order_acquire); }
  /// Begin time of the first dropped event, in ns.
  /// REQUIRES: dropped() > 0
  // Relaxed order is enough: dropped() loads with acquire order what was stored after this time.
  std::int64_t dropped_from_ns() const { return dropped_from_ns_.load(std::memory_order_relaxed); }

 private:
  const Kind kind_;
  const std::string name_;
  const std::vector<std::string> names_;
  const std::size_t capacity_;
  const std::unique_ptr<TraceEvent[]> events_;
  std::atomic<std::size_t> size_{0};
  std::atomic<std::uint64_t> dropped_{0};
  std::atomic<std::int64_t> dropped_from_ns_{0};
};

/// Records the events of a run for a trace, in rows. RunOptions and DataLoaderOptions name the
/// recorder; without one nothing is recorded. Each row allocates all of its memory when it is
/// created, before its events. Thread-safe.
class TraceRecorder {
 public:
  struct Options {
    std::uint64_t first_batch = 0;  ///< batches before this one are not recorded
    std::size_t events_per_row = std::size_t{1} << 16;
  };

  explicit TraceRecorder(const Options& options) : options_(options) {}

  /// Returns the row of this kind and name with these event names. Creates it on the first request;
  /// it exists as long as the recorder.
  TraceRow& row(TraceRow::Kind kind, const std::string& name, const std::vector<std::string>& names)
      SLIPSTREAM_EXCLUDES(mutex_);
  /// Adds a row whose events are all known.
  void add_row(TraceRow::Kind kind, const std::string& name, std::vector<std::string> names,
               std::span<const TraceEvent> events) SLIPSTREAM_EXCLUDES(mutex_);

  /// Returns true if events of `batch` should be recorded.
  bool wants(std::uint64_t batch) const {
    return batch >= options_.first_batch && !stopped_.load(std::memory_order_relaxed);
  }
  /// Stops recording. Used at the end of a run, because a loader keeps prefetching after it.
  void stop() { stopped_.store(true, std::memory_order_relaxed); }

  /// Maximum error of device times, in ns. They are measured by the device's own clock, which is
  /// compared with the host's when a run begins. 0 if no lane is a device's.
  void set_clock_error_ns(std::int64_t ns) { clock_error_ns_.store(ns); }
  std::int64_t clock_error_ns() const { return clock_error_ns_.load(); }

  /// Returns the rows, sorted by kind and then by creation order.
  std::vector<const TraceRow*> rows() const SLIPSTREAM_EXCLUDES(mutex_);

 private:
  const Options options_;
  std::atomic<bool> stopped_{false};
  std::atomic<std::int64_t> clock_error_ns_{0};
  mutable Mutex mutex_;
  std::vector<std::unique_ptr<TraceRow>> rows_ SLIPSTREAM_GUARDED_BY(mutex_);
};

/// Adds events to `row` if it is set and the recorder wants the batch.
class TraceWriter {
 public:
  TraceWriter() = default;
  TraceWriter(const TraceRecorder& recorder, TraceRow& row) : recorder_(&recorder), row_(&row) {}

  bool wants(std::uint64_t batch) const { return row_ != nullptr && recorder_->wants(batch); }
  void add(const TraceEvent& event) {
    if (wants(event.batch)) row_->add(event);
  }

 private:
  const TraceRecorder* recorder_ = nullptr;
  TraceRow* row_ = nullptr;
};

}  // namespace slipstream
