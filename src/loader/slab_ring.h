#pragma once

#include <cstdint>
#include <exception>
#include <optional>
#include <vector>

#include "core/sync.h"
#include "core/trace.h"
#include "loader/batch_queue.h"
#include "loader/slab_memory.h"
#include "slipstream/core/lane.h"

namespace slipstream {

/// The cycle of slabs: free -> filled by workers, position by position -> lent to the caller ->
/// free again when the caller's last use is over.
///
/// Positions are handed out in order. When a position fails, all earlier ones have therefore been
/// handed out and will be finished, so which failure is reported first does not depend on timing.
class SlabRing {
 public:
  struct Options {
    std::size_t batch_size = 1;
    std::size_t lent = 1;
    std::uint64_t first_batch = 0;
    TraceRecorder* trace = nullptr;  ///< records the filling of each slab
    /// Batches that are listed while the ring runs; nullptr: batches are always available.
    const BatchQueue* batches = nullptr;
    /// Whether listed batches that are smaller than batch_size are filled up with repeated samples.
    bool fills_up = false;
  };

  /// One position of one batch, to be filled by the worker that took it.
  struct Ticket {
    std::uint64_t batch = 0;
    std::size_t position = 0;
    std::byte* slab = nullptr;
  };

  struct LentSlab {
    std::uint64_t batch = 0;
    std::size_t slab = 0;
    std::size_t filled = 0;  ///< as in HostBatch
    double blocked_s = 0;    ///< as in HostBatch
  };

  /// `memory` must outlive the ring.
  SlabRing(const SlabMemory& memory, const Options& options);

  /// One object for each thread that calls take(). Idle threads are woken one at a time, the one
  /// that became idle last first, and a woken thread wakes the next one if there is more work. As
  /// few threads as possible run then, and their caches are warm.
  class Worker {
    friend SlabRing;
    ConditionVariable changed_;
    bool is_woken_ = false;
    Worker* next_ = nullptr;  ///< the thread that became idle before this one
  };

  /// Waits for a slab and returns the next position in it. Returns no value after the ring was
  /// stopped or a position failed.
  std::optional<Ticket> take(Worker& worker) SLIPSTREAM_EXCLUDES(mutex_);
  /// Marks a position as finished. `error` is the error that occurred; nullptr if the position is
  /// filled.
  void finish(const Ticket& ticket, std::exception_ptr error) SLIPSTREAM_EXCLUDES(mutex_);
  /// Wakes a worker after a batch was added to Options::batches.
  void notify_added() SLIPSTREAM_EXCLUDES(mutex_);
  /// Wakes all workers that wait in take().
  void stop() SLIPSTREAM_EXCLUDES(mutex_);

  bool ready() SLIPSTREAM_EXCLUDES(mutex_);
  LentSlab next() SLIPSTREAM_EXCLUDES(mutex_);
  void release(const LentSlab& lent, const Mark* last_use) SLIPSTREAM_EXCLUDES(mutex_);
  double blocked_s() const SLIPSTREAM_EXCLUDES(mutex_);

 private:
  struct Filling {
    std::size_t slab = 0;
    std::size_t samples = 0;  ///< number of positions to fill
    std::size_t taken = 0;
    std::size_t finished = 0;
    std::int64_t begin_ns = 0;  ///< start of its first position; 0: not traced
  };
  struct FreedSlab {
    std::size_t slab = 0;
    const Mark* last_use = nullptr;
  };
  struct Failure {
    std::uint64_t batch = 0;
    std::size_t position = 0;
    std::exception_ptr error;
  };

  void sleep(Worker& worker, Lock& lock) SLIPSTREAM_REQUIRES(mutex_);
  void wake_one() SLIPSTREAM_REQUIRES(mutex_);
  bool has_work() const SLIPSTREAM_REQUIRES(mutex_) { return is_open_ || can_open(); }
  std::size_t samples(std::uint64_t batch) const;
  Filling& filling(std::uint64_t batch) SLIPSTREAM_REQUIRES(mutex_);
  void trace_filled(std::uint64_t batch) SLIPSTREAM_REQUIRES(mutex_);
  bool is_over() const SLIPSTREAM_REQUIRES(mutex_) { return stopped_ || failure_.has_value(); }
  bool can_open() const SLIPSTREAM_REQUIRES(mutex_);
  bool is_settled(std::uint64_t batch) SLIPSTREAM_REQUIRES(mutex_);
  std::size_t count_settled() SLIPSTREAM_REQUIRES(mutex_);
  FreedSlab pop_freed() SLIPSTREAM_REQUIRES(mutex_);
  void push_freed(const FreedSlab& freed) SLIPSTREAM_REQUIRES(mutex_);
  Ticket issue() SLIPSTREAM_REQUIRES(mutex_);
  void open(const FreedSlab& freed) SLIPSTREAM_EXCLUDES(mutex_);
  void fail(std::uint64_t batch, std::size_t position, std::exception_ptr error)
      SLIPSTREAM_REQUIRES(mutex_);

  const SlabMemory& memory_;
  const Options options_;

  mutable Mutex mutex_;
  Worker* idle_ SLIPSTREAM_GUARDED_BY(mutex_) = nullptr;  ///< the thread that became idle last
  ConditionVariable settled_;
  std::vector<Filling> filling_ SLIPSTREAM_GUARDED_BY(mutex_);
  std::vector<FreedSlab> freed_ SLIPSTREAM_GUARDED_BY(mutex_);  ///< a ring, oldest first
  std::size_t freed_first_ SLIPSTREAM_GUARDED_BY(mutex_) = 0;
  std::size_t freed_count_ SLIPSTREAM_GUARDED_BY(mutex_) = 0;
  std::vector<std::optional<std::uint64_t>> lent_slabs_ SLIPSTREAM_GUARDED_BY(mutex_);  ///< by slab
  std::size_t lent_count_ SLIPSTREAM_GUARDED_BY(mutex_) = 0;
  /// The batch whose positions are handed out.
  std::uint64_t taking_ SLIPSTREAM_GUARDED_BY(mutex_);
  bool is_open_ SLIPSTREAM_GUARDED_BY(mutex_) = false;     ///< the batch taking_ has a slab
  bool is_opening_ SLIPSTREAM_GUARDED_BY(mutex_) = false;  ///< a worker waits for its slab
  std::uint64_t next_ SLIPSTREAM_GUARDED_BY(mutex_);
  std::optional<Failure> failure_ SLIPSTREAM_GUARDED_BY(mutex_);
  bool stopped_ SLIPSTREAM_GUARDED_BY(mutex_) = false;
  double blocked_s_ SLIPSTREAM_GUARDED_BY(mutex_) = 0;
  std::vector<TraceWriter> traces_ SLIPSTREAM_GUARDED_BY(mutex_);  ///< by slab; empty if not traced
};

}  // namespace slipstream
