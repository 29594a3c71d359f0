#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>
#include <vector>

#include "core/schedule.h"
#include "core/test_lanes.h"

namespace slipstream::test {

/// A batch passes through this number of stages, independent of the number of lanes, so that
/// results can be compared.
inline constexpr std::size_t kStages = 4;

/// Lanes of one kind, a ring of payload slots, and operations that enqueue work on them. It is the
/// only part of the payload tests that depends on the device.
class Rig {
 public:
  virtual ~Rig() = default;

  virtual std::vector<Lane*> lanes() const = 0;
  /// Restores the initial payload. May be called only while no lane has work.
  virtual void reset() = 0;
  /// Enqueues mix_stage().
  virtual void mix(std::size_t lane, std::size_t stage, std::uint64_t batch, std::size_t slot) = 0;
  /// Overwrites the result of `stage` in `slot`.
  virtual void poison(std::size_t lane, std::size_t stage, std::size_t slot) = 0;
  virtual void pause(std::size_t lane, std::chrono::microseconds time) = 0;
  /// A meeting of two lanes, once per run. hold() signals that the lane `held` has arrived, and its
  /// later work waits for release(). After await_held(), the other lane's later work waits until
  /// `held` has arrived. Waiting longer than kPatience is an error.
  virtual void hold(std::size_t held) = 0;
  virtual void await_held(std::size_t other) = 0;
  virtual void release(std::size_t other) = 0;
  /// Returns a hash of all results of the stages, in their order. Only while no lane has work.
  virtual std::uint64_t digest() = 0;
};

/// SplitMix64's finalizer (Steele, Lea, Flood 2014).
constexpr std::uint64_t scramble(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

struct PlainCell {
  std::uint64_t load() const { return value; }
  void store(std::uint64_t x) { value = x; }
  std::uint64_t value = 0;
};

/// For runs that race on purpose: relaxed accesses order nothing, and ThreadSanitizer does not
/// report them.
struct RelaxedCell {
  std::uint64_t load() const { return value.load(std::memory_order_relaxed); }
  void store(std::uint64_t x) { value.store(x, std::memory_order_relaxed); }
  std::atomic<std::uint64_t> value = 0;
};

/// Computes one stage of one batch: reads the results of all earlier stages in the slot and the
/// stage's own state, as training reads its weights, and writes both.
template <typename Cell>
void mix_stage(Cell* slot, Cell* state, std::size_t stage, std::uint64_t batch) {
  std::uint64_t value = scramble(batch * kStages + stage);
  for (std::size_t earlier = 0; earlier < stage; ++earlier)
    value = scramble(value ^ slot[earlier].load());
  slot[stage].store(value);
  state[stage].store(scramble(state[stage].load() ^ value));
}

template <typename Cell>
std::uint64_t hash_state(const std::array<Cell, kStages>& state) {
  std::uint64_t digest = 0;
  for (const Cell& cell : state) digest = scramble(digest ^ cell.load());
  return digest;
}

/// Returns the digest that every schedule must produce, computed without a schedule.
inline std::uint64_t serial_digest(std::uint64_t batches) {
  std::array<PlainCell, kStages> slot, state;
  for (std::uint64_t batch = 0; batch < batches; ++batch)
    for (std::size_t stage = 0; stage < kStages; ++stage)
      mix_stage(slot.data(), state.data(), stage, batch);
  return hash_state(state);
}

/// A rig for the CPU.
template <typename Cell>
class CpuRig final : public Rig {
 public:
  CpuRig(Kind kind, std::size_t lanes, std::size_t depth)
      : slots_(depth * kStages), lanes_(kind, lanes) {}

  std::vector<Lane*> lanes() const override { return lanes_.all(); }
  void reset() override {
    for (Cell& cell : slots_) cell.store(0);
    for (Cell& cell : state_) cell.store(0);
    held_ = released_ = false;
  }
  void mix(std::size_t lane, std::size_t stage, std::uint64_t batch, std::size_t slot) override {
    lanes_.enqueue(lane,
                   [=, this] { mix_stage(&slots_[slot * kStages], state_.data(), stage, batch); });
  }
  void poison(std::size_t lane, std::size_t stage, std::size_t slot) override {
    lanes_.enqueue(lane, [=, this] { slots_[slot * kStages + stage].store(0xdeadbeef); });
  }
  void pause(std::size_t lane, std::chrono::microseconds time) override {
    lanes_.enqueue(lane, [time] { std::this_thread::sleep_for(time); });
  }
  void hold(std::size_t held) override {
    lanes_.enqueue(held, [this] {
      raise(held_);
      await(released_);
    });
  }
  void await_held(std::size_t other) override {
    lanes_.enqueue(other, [this] { await(held_); });
  }
  void release(std::size_t other) override {
    lanes_.enqueue(other, [this] { raise(released_); });
  }
  std::uint64_t digest() override { return hash_state(state_); }

 private:
  // Relaxed, because another order could replace the missing wait and hide the race from
  // ThreadSanitizer.
  static void raise(std::atomic<bool>& flag) { flag.store(true, std::memory_order_relaxed); }
  static void await(const std::atomic<bool>& flag) {
    eventually("the other lane", [&flag] { return flag.load(std::memory_order_relaxed); });
  }

  std::vector<Cell> slots_;  ///< [slot][stage]
  std::array<Cell, kStages> state_;
  std::atomic<bool> held_ = false, released_ = false;
  TestLanes lanes_;  ///< destroyed first: its threads use the other members
};

/// A delay that shows that a wait is missing: `lane` executes `batch` only right after another lane
/// has done the work for which it should have waited. The wait must be left out, otherwise the
/// lanes would wait for each other.
struct Hold {
  std::size_t lane = 0;
  std::uint64_t batch = 0;
  std::size_t until_lane = 0;
  std::uint64_t until_batch = 0;
  /// whether the other lane must have read or dropped first
  WaitId::Kind kind = WaitId::Kind::handoff;
};

inline Hold hold_against(const WaitId& wait, std::size_t lanes, std::size_t depth) {
  const std::uint64_t batch = depth + 1;  // the second use of a slot
  if (wait.kind == WaitId::Kind::handoff)
    return {wait.lane - 1, batch, wait.lane, batch, wait.kind};
  return {lanes - 1, batch - depth, wait.lane, batch, wait.kind};
}

/// Distributes the stages evenly over the lanes, in order. Dropping a result overwrites it.
class PayloadWork final : public Work {
 public:
  PayloadWork(Rig& rig, std::size_t lanes, std::optional<Hold> hold, bool is_timed)
      : rig_(rig), hold_(hold), is_timed_(is_timed), batch_(lanes, 0) {}

  bool wants_times() const override { return is_timed_; }
  bool input_ready(std::uint64_t) override { return true; }
  void await_input(std::uint64_t) override {}
  void drop(std::size_t lane, std::size_t slot) override {
    const bool meets = releases(WaitId::Kind::slot, lane, batch_[lane]);
    if (meets) rig_.await_held(lane);
    for (std::size_t stage = first(lane); stage < first(lane + 1); ++stage)
      rig_.poison(lane, stage, slot);
    if (meets) rig_.release(lane);
  }
  void run(std::size_t lane, std::uint64_t batch, std::size_t slot) override {
    const bool meets = releases(WaitId::Kind::handoff, lane, batch);
    if (hold_ && hold_->lane == lane && hold_->batch == batch) rig_.hold(lane);
    if (meets) rig_.await_held(lane);
    for (std::size_t stage = first(lane); stage < first(lane + 1); ++stage)
      rig_.mix(lane, stage, batch, slot);
    if (meets) rig_.release(lane);
    batch_[lane] = batch + 1;
  }
  void completed(std::uint64_t, std::span<const Mark* const>,
                 std::span<const Mark* const>) override {}

 private:
  std::size_t first(std::size_t lane) const { return lane * kStages / batch_.size(); }
  bool releases(WaitId::Kind kind, std::size_t lane, std::uint64_t batch) const {
    return hold_ && hold_->kind == kind && hold_->until_lane == lane && hold_->until_batch == batch;
  }

  Rig& rig_;
  const std::optional<Hold> hold_;
  const bool is_timed_;
  std::vector<std::uint64_t> batch_;  ///< [lane], the next batch
};

struct PayloadRun {
  Driver driver = Driver::interleaved;
  std::size_t depth = 1;
  std::uint64_t batches = 24;
  std::size_t run_ahead = 1;
  std::optional<Hold> hold = {};
  /// True if the caller requests batches and is the last lane, without times. With
  /// Driver::threaded, all lanes between it and the first one have threads.
  bool pulled = false;
};

/// Runs the payload through the rig's lanes and returns its digest.
inline std::uint64_t run_payload(Rig& rig, LaneThreads& threads, const PayloadRun& run,
                                 const ScheduleProbe* probe = nullptr) {
  const std::vector<Lane*> lanes = rig.lanes();
  PayloadWork work(rig, lanes.size(), run.hold, !run.pulled);
  rig.reset();
  Schedule schedule(lanes, run.depth, run.run_ahead, work, probe);
  if (!run.pulled) {
    schedule.run(run.batches, run.driver, threads);
    return rig.digest();
  }
  const bool is_tight = run.depth == lanes.size();
  std::vector<std::size_t> on_threads;
  if (run.driver == Driver::threaded)
    for (std::size_t lane = is_tight ? 0 : 1; lane + 1 < lanes.size(); lane += is_tight ? 2 : 1)
      on_threads.push_back(lane);
  schedule.begin(run.batches, {}, &threads, on_threads);
  for (std::uint64_t batch = 0; schedule.next(); ++batch)
    work.run(lanes.size() - 1, batch, batch % run.depth);
  schedule.end();
  for (Lane* lane : lanes) lane->synchronize();
  return rig.digest();
}

/// Adds pauses of up to 0.3 ms around the lanes' work, as a function of (seed, lane, batch).
inline ScheduleProbe random_delays(Rig& rig, std::uint64_t seed) {
  ScheduleProbe probe;
  probe.delay = [&rig, seed](std::size_t lane, std::uint64_t batch, bool first) {
    const std::uint64_t draw =
        scramble(scramble(scramble(seed) + lane) + 2 * batch + (first ? 1 : 0));
    if (draw % 3 == 0) rig.pause(lane, std::chrono::microseconds(draw / 3 % 300));
  };
  return probe;
}

}  // namespace slipstream::test
