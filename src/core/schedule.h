#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "core/lane_threads.h"
#include "core/order_check.h"
#include "core/slot_ring.h"
#include "core/sync.h"
#include "slipstream/core/lane.h"

namespace slipstream {

/// The work that a schedule's lanes do. `batch` counts from 0 in each run; slot = batch % depth.
/// With Driver::threaded, different lanes are called from different threads. All calls for one lane
/// come in order from one thread.
class Work {
 public:
  virtual ~Work() = default;

  /// Returns true if the first lane's input for `batch` is ready. Does not block.
  virtual bool input_ready(std::uint64_t batch) = 0;
  /// Blocks until input_ready(batch) is true, or throws.
  virtual void await_input(std::uint64_t batch) = 0;
  /// Called a few times per second while next() waits for threads. An exception thrown here
  /// propagates out of next().
  virtual void poll() {}
  /// Returns true if completed() needs the times when a lane began and ended a batch. The answer
  /// must never change.
  virtual bool wants_times() const { return true; }
  /// Releases the tensors that `lane` stored in `slot`. Called after a wait that orders the lane's
  /// next work after the slot's last reader.
  virtual void drop(std::size_t lane, std::size_t slot) = 0;
  /// Enqueues the lane's stages for `batch`, or runs them if it is a host lane.
  virtual void run(std::size_t lane, std::uint64_t batch, std::size_t slot) = 0;
  /// Called in batch order once the last lane has finished `batch` and the host has seen that. The
  /// calls come from the first lane's thread or, at the end of the run, from the thread in run().
  /// After an error it is still called for the batches that completed. `begin` and `end` hold one
  /// mark per lane (`begin` is nullptr if wants_times() is false). The marks of the previous batch
  /// are still valid.
  virtual void completed(std::uint64_t batch, std::span<const Mark* const> begin,
                         std::span<const Mark* const> end) = 0;
};

/// Hooks that only tests of ordering use.
struct ScheduleProbe {
  /// Omits a wait if it returns true. On streams only the device's wait is omitted, unless
  /// `skip_gate` is set.
  std::function<bool(const WaitId&)> skip;
  /// Also omits the host's wait until the other lane has recorded its mark. Used for host lanes.
  bool skip_gate = false;
  /// Called on the lane immediately before (first = true) and after its work for a batch.
  std::function<void(std::size_t lane, std::uint64_t batch, bool first)> delay;
  /// If set, checks the order of every slot access.
  OrderCheck* check = nullptr;
};

/// Moves numbered batches through lanes over a ring of `depth` slots.
///
/// For every lane and batch: wait until the slot's previous batch has left the last lane; drop what
/// the lane kept in the slot; wait for the previous lane's part of this batch; run; record. A wait
/// is enqueued only after the mark that it waits for has been recorded (checked in every build).
/// Lane k runs at most `depth` - k batches ahead of the last lane. So each lane starts on a batch
/// whose earlier parts are finished, instead of queueing after them.
/// The host enqueues at most `depth` + `run_ahead` batches beyond the last one it has seen
/// finished. In the steady state it blocks only on that limit and on late input.
///
/// Call its member functions from one thread; the threads of `LaneThreads` synchronize with it
/// internally.
class Schedule {
 public:
  /// REQUIRES: depth >= lanes.size() >= 1, run_ahead >= 1. The lanes, `work` and `probe` must
  /// outlive the schedule.
  Schedule(std::vector<Lane*> lanes, std::size_t depth, std::size_t run_ahead, Work& work,
           const ScheduleProbe* probe = nullptr);
  ~Schedule();
  Schedule(const Schedule&) = delete;
  Schedule& operator=(const Schedule&) = delete;

  /// Runs batches 0 ... batches-1 and returns the number of batches run, when every lane has
  /// finished. The slots of the last `depth` batches keep their content; after a stop or an error
  /// the oldest of these slots may be empty.
  /// `stop` (may be empty) is called before each batch enters; returning true ends the run early
  /// without an error.
  /// After an error no lane takes new work, all lanes are drained, and the first error is rethrown
  /// unchanged. failed_lane() and failed_batch() say where it happened. An exception from
  /// completed() counts as the last lane's; one from a lane's synchronize() is reported for the
  /// first batch that is not completed.
  std::uint64_t run(std::uint64_t batches, Driver driver, LaneThreads& threads,
                    const std::function<bool()>& stop = {});

  /// Starts a run in which the caller is the last lane and returns for each batch with next(). The
  /// calling thread makes all further calls; run() must not be called meanwhile. Each lane in
  /// `on_threads` is advanced by its own thread of `threads`, all others by the caller. The thread
  /// that advances the first lane also calls `stop`, Work::input_ready(), Work::await_input() and
  /// Work::completed().
  /// REQUIRES: at least two lanes; Work::run() does nothing for the last one, which is not among
  /// `on_threads`; `threads` have no other work until end()
  void begin(std::uint64_t batches, const std::function<bool()>& stop = {},
             LaneThreads* threads = nullptr, std::vector<std::size_t> on_threads = {});
  /// Records the end of the batch that the last lane works on, if there is one.
  void done();
  /// Calls done(), enqueues the work that the other lanes can do ahead, and begins the last lane's
  /// next batch. Returns false if there is no further batch. Blocks under the same conditions as
  /// run(). Rethrows the first error unchanged; after that only end() may be called.
  bool next();
  /// Returns true if one of begin()'s threads advances the lane. Constant from begin() to stop().
  bool is_on_thread(std::size_t lane) const;
  /// Makes begin()'s threads leave the run and waits for them, including a call of
  /// Work::await_input() in progress. After that only end() may be called.
  void stop();
  /// Calls stop(), then ends the run at whatever point it is: each lane drops the content of its
  /// slots after all work of the other lanes. The host waits for threads that are enqueuing, but
  /// not for a device. Does nothing if begin() was not called.
  void end();

  std::size_t failed_lane() const { return failed_lane_; }
  std::uint64_t failed_batch() const { return failed_batch_; }

 private:
  struct Marks {
    std::unique_ptr<Mark> begin, end;
  };
  struct Stopped {};  ///< thrown on a lane when another lane's error has ended the run

  void advance(std::size_t lane, std::uint64_t batch);
  /// The parts of advance() before and after the lane's work for a batch.
  void enter(std::size_t lane, std::uint64_t batch);
  void leave(std::size_t lane, std::uint64_t batch);
  /// Advances one lane other than the last by one batch, later lanes first. Returns false if none
  /// can advance.
  bool advance_ahead(bool may_wait);
  /// Waits until one of the caller's lanes after the first can advance. Returns false if no thread
  /// has work that would make that possible.
  bool await_threads();
  enum class Next { callers, threads, nobodys };
  /// Returns which side can advance next: the caller, a thread, or neither. Ignores the first lane
  /// if the caller advances it. Waits up to kPollInterval for the caller's turn.
  Next await_next();
  void reset(std::uint64_t batches, const std::function<bool()>& stop);
  void wait(std::size_t lane, std::size_t producer, std::uint64_t batch, WaitId::Kind kind);
  void await_recorded(std::size_t lane, std::uint64_t batch);
  bool admit(std::uint64_t batch);
  void await_input(std::uint64_t batch);
  void complete_until(std::uint64_t batches);
  void await_reached(const Mark& mark);
  bool can_advance(std::size_t lane);
  bool may_advance(std::size_t lane) const SLIPSTREAM_REQUIRES(mutex_);
  void run_interleaved();
  void run_lane(std::size_t lane) noexcept;
  void fail(std::size_t lane, std::uint64_t batch);
  void drain();
  /// Number of batches that `lane` may be ahead of the last lane's end.
  std::uint64_t reach(std::size_t lane) const { return depth_ - lane; }
  std::uint64_t next_batch(std::size_t lane);
  bool finished(std::size_t lane);

  std::vector<Lane*> lanes_;
  std::size_t depth_, window_;
  Work& work_;
  const ScheduleProbe* probe_;
  std::vector<SlotRing<Marks>> marks_;  ///< [lane], `window` + 1 deep
  /// [lane], recorded by end() after all enqueued work.
  std::vector<std::unique_ptr<Mark>> last_marks_;

  Mutex mutex_;
  ConditionVariable changed_;
  /// Batches recorded, per lane.
  std::vector<std::uint64_t> recorded_ SLIPSTREAM_GUARDED_BY(mutex_);
  std::uint64_t batches_ SLIPSTREAM_GUARDED_BY(mutex_) = 0;  ///< number of batches to run
  std::exception_ptr error_ SLIPSTREAM_GUARDED_BY(mutex_);
  std::size_t failed_lane_ = 0;
  std::uint64_t failed_batch_ = 0;
  std::uint64_t completed_ = 0;  ///< used by the first lane's thread, or by run() when no lane runs
  const std::function<bool()>* stop_ = nullptr;
  bool has_begun_ = false;          ///< whether begin() was called
  bool is_open_ = false;            ///< true while the caller works on a batch of the last lane
  LaneThreads* threads_ = nullptr;  ///< the argument of begin()
  std::vector<std::size_t> on_threads_;  ///< lanes
};

}  // namespace slipstream
