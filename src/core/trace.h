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

/// Now, ns, on the clock of all times of a trace: the host's monotonic one, which
/// std::chrono::steady_clock reads too.
std::int64_t trace_now_ns();

inline constexpr std::uint64_t kNoBatch = std::numeric_limits<std::uint64_t>::max();
inline constexpr std::uint64_t kNoSample = std::numeric_limits<std::uint64_t>::max();

/// Something that was done from begin to end, ns.
struct TraceEvent {
  std::size_t name = 0;            ///< which of TraceRow::names()
  std::uint64_t batch = kNoBatch;  ///< through all epochs and runs
  std::uint64_t sample = kNoSample;
  std::int64_t begin_ns = 0;
  std::int64_t end_ns = 0;
};

/// Things that were done one after the other in one place. Holds a fixed number of events: what
/// comes when it is full is counted, not kept. add() is called by one thread at a time, allocates
/// nothing and never blocks; all else may be called from any thread, meanwhile too.
class TraceRow {
 public:
  /// In the order in which they are shown.
  enum class Kind : std::uint8_t {
    reader,  ///< a thread that reads ahead of the workers
    worker,  ///< a loader thread: each step of each sample
    slab,    ///< a slab of the loader: from its first sample to its last
    lane,    ///< each step of each batch: on a GPU, when the device did it
    host,    ///< of a GPU's lane: when the host enqueued it
    stream   ///< kernels and copies on a stream of the GPU
  };

  TraceRow(Kind kind, std::string name, std::vector<std::string> names, std::size_t capacity);

  Kind kind() const { return kind_; }
  const std::string& name() const { return name_; }
  const std::vector<std::string>& names() const { return names_; }

  void add(const TraceEvent& event);
  /// Those kept so far, as they were added.
  std::span<const TraceEvent> events() const;
  /// How many found no room.
  std::uint64_t dropped() const { return dropped_.load(std::memory_order_acquire); }
  /// Where the first of them began. REQUIRES: dropped() > 0
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

/// What happened in a run, for a trace: rows of events. RunOptions and DataLoaderOptions name the
/// recorder; without one nothing is recorded. All rows are made before the events come, each with
/// all of its memory. May be used from several threads.
class TraceRecorder {
 public:
  struct Options {
    std::uint64_t first_batch = 0;  ///< batches before this one are left out
    std::size_t events_per_row = std::size_t{1} << 16;
  };

  explicit TraceRecorder(const Options& options) : options_(options) {}

  /// The row of this kind, name and these names of events: made when first asked for, and kept as
  /// long as the recorder.
  TraceRow& row(TraceRow::Kind kind, const std::string& name, const std::vector<std::string>& names)
      SLIPSTREAM_EXCLUDES(mutex_);
  /// A row that is whole already.
  void add_row(TraceRow::Kind kind, const std::string& name, std::vector<std::string> names,
               std::span<const TraceEvent> events) SLIPSTREAM_EXCLUDES(mutex_);

  /// Whether events of `batch` are wanted.
  bool wants(std::uint64_t batch) const {
    return batch >= options_.first_batch && !stopped_.load(std::memory_order_relaxed);
  }
  /// From now on nothing is wanted any more: a loader works on ahead of a run that is over.
  void stop() { stopped_.store(true, std::memory_order_relaxed); }

  /// By how much the times of a device may be off, ns: they come from its own clock, which is
  /// compared with the host's when a run begins. 0 where no lane is a device's.
  void set_clock_error_ns(std::int64_t ns) { clock_error_ns_.store(ns); }
  std::int64_t clock_error_ns() const { return clock_error_ns_.load(); }

  /// By kind, and in the order in which they were made.
  std::vector<const TraceRow*> rows() const SLIPSTREAM_EXCLUDES(mutex_);

 private:
  const Options options_;
  std::atomic<bool> stopped_{false};
  std::atomic<std::int64_t> clock_error_ns_{0};
  mutable Mutex mutex_;
  std::vector<std::unique_ptr<TraceRow>> rows_ SLIPSTREAM_GUARDED_BY(mutex_);
};

/// Adds to `row`, where there is one and the recorder wants the batch.
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
