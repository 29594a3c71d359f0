#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace slipstream {

/// Identifies one wait of the schedule. `handoff`: lane k waits for lane k-1's part of the same
/// batch before it runs its own part. `slot`: lane k waits until the last lane has finished the
/// batch `depth` - k earlier, which includes the slot's previous batch, before it drops the slot's
/// content.
struct WaitId {
  enum class Kind : std::uint8_t { handoff, slot };
  Kind kind = Kind::handoff;
  std::size_t lane = 0;
  bool operator==(const WaitId&) const = default;
};

std::string to_string(const WaitId& wait);

/// Happens-before check over slot accesses with vector clocks (Mattern, "Virtual time and global
/// states of distributed systems", 1989). It finds accesses whose order no wait guarantees, even if
/// no run has shown a wrong order. Each lane's work is one thread of the model: record() stores the
/// lane's clock, wait() merges a stored clock into the waiting lane's. Each pair (slot, producing
/// lane) is one piece of memory. Its producer writes it when it drops and when it fills it; every
/// later lane reads it. A write must come after every earlier access, a read after the last write.
/// Not thread-safe: the schedule calls it while it holds its own lock.
class OrderCheck {
 public:
  OrderCheck(std::size_t lanes, std::size_t depth, std::size_t window);

  void record(std::size_t lane, std::uint64_t batch);
  void wait(std::size_t lane, std::size_t producer, std::uint64_t batch);
  void drop(std::size_t lane, std::uint64_t batch);
  /// Models lane's work on a batch: reads the parts of the slot that earlier lanes filled, and
  /// writes the lane's own part.
  void run(std::size_t lane, std::uint64_t batch);
  /// Models that the host has waited for all lanes: all work enqueued later comes after all work
  /// enqueued earlier.
  void drained();

  /// Returns one sentence for each unordered pair of accesses. Empty if every access was ordered.
  const std::vector<std::string>& violations() const { return violations_; }

 private:
  using Clock = std::vector<std::uint64_t>;
  struct Piece {
    Clock write;               ///< clock of the last write; empty if never written
    std::vector<Clock> reads;  ///< per lane, since the last write
  };

  bool ordered(const Clock& earlier, const Clock& now) const;
  void write(std::size_t lane, std::uint64_t batch, const char* what);
  void read(std::size_t lane, std::size_t producer, std::uint64_t batch);
  void report(const std::string& sentence);

  std::size_t depth_, window_;
  std::vector<Clock> now_;                    ///< per lane
  std::vector<std::vector<Clock>> recorded_;  ///< [lane][batch % window]
  std::vector<std::vector<Piece>> pieces_;    ///< [slot][producer]
  std::vector<std::string> violations_;
};

/// Returns the waits of a schedule with `lanes` lanes and `depth` slots that the other waits imply:
/// omitting any single one of them leaves every access ordered. Runs the check over the schedule
/// once per wait, without that wait.
std::vector<WaitId> implied_waits(std::size_t lanes, std::size_t depth);
/// Returns all waits of a schedule with `lanes` lanes.
std::vector<WaitId> all_waits(std::size_t lanes);

}  // namespace slipstream
