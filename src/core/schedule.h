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

/// What the lanes of a schedule do. `batch` counts from 0 in each run; slot = batch % depth.
/// Different lanes are called from different threads under Driver::threaded; one lane's calls come
/// in order, from one thread.
class Work {
 public:
  virtual ~Work() = default;

  /// Whether the first lane's input for `batch` is there. Must not block.
  virtual bool input_ready(std::uint64_t batch) = 0;
  /// Blocks until input_ready(batch), or throws.
  virtual void await_input(std::uint64_t batch) = 0;
  /// Called some times a second while next() waits for threads. Throws what is to come out of it.
  virtual void poll() {}
  /// Whether retired() wants to know when a lane began and ended a batch. Always the same.
  virtual bool wants_times() const { return true; }
  /// Lets go of what `lane` put into `slot`: its last reader's end is in front of `lane`'s work.
  virtual void drop(std::size_t lane, std::size_t slot) = 0;
  /// Enqueues (or does) lane's stages for `batch`.
  virtual void run(std::size_t lane, std::uint64_t batch, std::size_t slot) = 0;
  /// The last lane has recorded `batch`'s end and the host has seen it reached. In batch order,
  /// from the first lane's thread or, at the end, from run()'s caller; after an error too, for the
  /// batches that came through. `begin` and `end` hold one mark a lane (`begin` nullptr without
  /// wants_times()); those of the batch before are still as they were.
  virtual void retired(std::uint64_t batch, std::span<const Mark* const> begin,
                       std::span<const Mark* const> end) = 0;
};

/// Switches for tests of ordering. None of them is used otherwise.
struct ScheduleProbe {
  /// Leaves a wait out: on streams the device's wait alone, unless `skip_gate`.
  std::function<bool(const WaitId&)> skip;
  /// The host does not even wait until what is waited for has been recorded: for host lanes.
  bool skip_gate = false;
  /// Called on the lane right before (first = true) and after its work for a batch.
  std::function<void(std::size_t lane, std::uint64_t batch, bool first)> delay;
  /// Checks the order of every slot access.
  OrderCheck* check = nullptr;
};

/// Moves numbered batches through lanes over a ring of `depth` slots.
///
/// For every lane and batch: wait until the slot's previous batch has left the last lane; drop what
/// the lane kept in the slot; wait for the previous lane's part of this batch; run; record. A wait
/// is enqueued only after what it waits for has been recorded (checked in every build).
/// Lane k runs at most `depth` - k batches ahead of the last lane, so each lane starts on a batch
/// whose earlier parts are already there instead of queueing behind them.
/// The host enqueues at most `depth` + `run_ahead` batches beyond the last one it has seen
/// finished, and blocks on nothing else in the steady state but on a late input.
class Schedule {
 public:
  /// REQUIRES: depth >= lanes.size() >= 1, run_ahead >= 1. The lanes, `work` and `probe` must
  /// outlive the schedule.
  Schedule(std::vector<Lane*> lanes, std::size_t depth, std::size_t run_ahead, Work& work,
           const ScheduleProbe* probe = nullptr);
  ~Schedule();
  Schedule(const Schedule&) = delete;
  Schedule& operator=(const Schedule&) = delete;

  /// Runs batches 0 ... batches-1 and returns when every lane is done. The slots of the last
  /// `depth` batches keep what they hold; after a stop or an error all but the oldest of them do.
  /// `stop` (may be empty) is asked before each batch enters; true ends the run early, cleanly.
  /// After an error no lane takes new work, all lanes are drained, and the first
  /// error is thrown unchanged; failed_lane() and failed_batch() say where it came from: the last
  /// lane for what retired() throws, and the first batch not yet retired where a lane's
  /// synchronize() throws.
  /// Returns the number of batches run.
  std::uint64_t run(std::uint64_t batches, Driver driver, LaneThreads& threads,
                    const std::function<bool()>& stop = {});

  /// For a caller who is the last lane and comes back for each batch: begins a run on the calling
  /// thread, which makes all further calls. run() is not called meanwhile. The lanes `on_threads`
  /// are advanced by `threads`, one by each, the others by the caller. With the first lane's thread
  /// goes what comes ahead of its batches: `stop`, input and Work::retired().
  /// REQUIRES: at least two lanes; Work::run() does nothing for the last one, which is not among
  /// `on_threads`; `threads` have no other work until end()
  void begin(std::uint64_t batches, const std::function<bool()>& stop = {},
             LaneThreads* threads = nullptr, std::vector<std::size_t> on_threads = {});
  /// Records the end of the last lane's batch, where it has one.
  void done();
  /// done(); then enqueues what the other lanes may do ahead, and lets the last lane begin its next
  /// batch. False where there is none. Blocks where run() does. Throws the first error unchanged;
  /// end() is all that may follow.
  bool next();
  /// Whether one of begin()'s threads advances the lane. The same until stop().
  bool is_on_thread(std::size_t lane) const;
  /// Ends what threads do of the run; end() is all that may follow. Waits for Work::await_input().
  void stop();
  /// stop(); ends the run, wherever it is: drops what the slots hold, each lane behind all work of
  /// the others. The host waits for threads that are enqueuing, for no device. Does nothing without
  /// begin().
  void end();

  std::size_t failed_lane() const { return failed_lane_; }
  std::uint64_t failed_batch() const { return failed_batch_; }

 private:
  struct Marks {
    std::unique_ptr<Mark> begin, end;
  };
  struct Stopped {};  ///< thrown on lanes whose run another lane's error has ended

  void advance(std::size_t lane, std::uint64_t batch);
  /// What comes ahead of a lane's work for a batch, and behind it.
  void enter(std::size_t lane, std::uint64_t batch);
  void leave(std::size_t lane, std::uint64_t batch);
  /// One step of a lane before the last, later ones first; false where none may take one.
  bool advance_ahead(bool may_wait);
  /// Waits until one of the caller's lanes behind the first can go on. False where no thread has
  /// work that would let it.
  bool await_threads();
  enum class Next { callers, threads, nobodys };
  /// Whose work is next, but for the first lane where it is the caller's. Waits some time for the
  /// caller's.
  Next await_next();
  void reset(std::uint64_t batches, const std::function<bool()>& stop);
  void wait(std::size_t lane, std::size_t producer, std::uint64_t batch, WaitId::Kind kind);
  void await_recorded(std::size_t lane, std::uint64_t batch);
  bool admit(std::uint64_t batch);
  void await_input(std::uint64_t batch);
  void retire_until(std::uint64_t batches);
  void await_reached(const Mark& mark);
  bool can_advance(std::size_t lane);
  bool may_advance(std::size_t lane) const SLIPSTREAM_REQUIRES(mutex_);
  void run_interleaved();
  void run_lane(std::size_t lane) noexcept;
  void fail(std::size_t lane, std::uint64_t batch);
  void drain();
  /// How many batches `lane` may be ahead of the last lane's end.
  std::uint64_t reach(std::size_t lane) const { return depth_ - lane; }
  std::uint64_t next_batch(std::size_t lane);
  bool finished(std::size_t lane);

  std::vector<Lane*> lanes_;
  std::size_t depth_, window_;
  Work& work_;
  const ScheduleProbe* probe_;
  std::vector<SlotRing<Marks>> marks_;             ///< [lane], `window` + 1 deep
  std::vector<std::unique_ptr<Mark>> last_marks_;  ///< [lane], behind all that end() finds

  Mutex mutex_;
  ConditionVariable changed_;
  std::vector<std::uint64_t> recorded_ SLIPSTREAM_GUARDED_BY(mutex_);  ///< batches recorded, a lane
  std::uint64_t batches_ SLIPSTREAM_GUARDED_BY(mutex_) = 0;            ///< how many to run
  std::exception_ptr error_ SLIPSTREAM_GUARDED_BY(mutex_);
  std::size_t failed_lane_ = 0;
  std::uint64_t failed_batch_ = 0;
  std::uint64_t retired_ = 0;  ///< the first lane's thread, or run() when no lane runs
  const std::function<bool()>* stop_ = nullptr;
  bool has_begun_ = false;               ///< by begin()
  bool is_open_ = false;                 ///< whether the caller has a batch of the last lane
  LaneThreads* threads_ = nullptr;       ///< of begin()
  std::vector<std::size_t> on_threads_;  ///< lanes
};

}  // namespace slipstream
