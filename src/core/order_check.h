#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace slipstream {

/// One wait of the schedule. `handoff`: lane k waits for lane k-1's part of the batch before it
/// runs its own. `retired`: lane k waits for the last lane's part of the batch `depth` - k before,
/// and so of the slot's previous batch, before it drops what the slot held.
struct WaitId {
  enum class Kind : std::uint8_t { handoff, retired };
  Kind kind = Kind::handoff;
  std::size_t lane = 0;
  bool operator==(const WaitId&) const = default;
};

std::string to_string(const WaitId& wait);

/// Happens-before check over slot accesses, with vector clocks (Mattern, "Virtual time and global
/// states of distributed systems", 1989): finds orders that the waits do not guarantee, also where
/// no run has yet shown them. A lane's work is one thread of the model; record() stores its clock,
/// wait() merges a stored clock into the waiting lane's. Each (slot, producing lane) is one piece
/// of memory, written by its producer when it is dropped and when it is filled, read by every
/// later lane. A write must come after every earlier access, a read after the last write.
/// Not thread-safe: the schedule calls it under its own lock.
class OrderCheck {
 public:
  OrderCheck(std::size_t lanes, std::size_t depth, std::size_t window);

  void record(std::size_t lane, std::uint64_t batch);
  void wait(std::size_t lane, std::size_t producer, std::uint64_t batch);
  void drop(std::size_t lane, std::uint64_t batch);
  /// Reads what earlier lanes put into the slot, and writes the lane's own part.
  void run(std::size_t lane, std::uint64_t batch);
  /// The host has waited for all lanes: what they do from now on comes after all they did.
  void drained();

  /// What was found, one sentence a pair of accesses; empty when every access was ordered.
  const std::vector<std::string>& violations() const { return violations_; }

 private:
  using Clock = std::vector<std::uint64_t>;
  struct Piece {
    Clock write;               ///< clock of the last write; empty: never written
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

/// The waits of a schedule of `lanes` lanes and `depth` slots that the others imply: removing one
/// of them alone leaves every access ordered. Found by running the check over the schedule without
/// each wait in turn.
std::vector<WaitId> implied_waits(std::size_t lanes, std::size_t depth);
/// All waits of such a schedule.
std::vector<WaitId> all_waits(std::size_t lanes);

}  // namespace slipstream
