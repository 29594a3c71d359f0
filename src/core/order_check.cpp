#include "core/order_check.h"

#include <algorithm>

#include "slipstream/core/error.h"

namespace slipstream {
namespace {

constexpr std::size_t kMaxViolations = 20;

void merge(std::vector<std::uint64_t>& into, const std::vector<std::uint64_t>& from) {
  for (std::size_t i = 0; i < into.size(); ++i) into[i] = std::max(into[i], from[i]);
}

std::string place(std::size_t lane, std::uint64_t batch) {
  return "lane " + std::to_string(lane) + ", batch " + std::to_string(batch);
}

/// Walks a schedule in the order in which the host enqueues it, without the wait `skipped`. Returns
/// true if every access was still ordered.
bool is_ordered_without(const WaitId& skipped, std::size_t lanes, std::size_t depth) {
  const std::size_t window = depth + 1;
  OrderCheck check(lanes, depth, window);
  const auto enqueue_wait = [&](WaitId id, std::size_t producer, std::uint64_t batch) {
    if (!(id == skipped)) check.wait(id.lane, producer, batch);
  };
  // Several times around the ring, so that every slot and every recording has been reused.
  for (std::uint64_t batch = 0; batch < 4 * window; ++batch) {
    for (std::size_t lane = 0; lane < lanes; ++lane) {
      const std::size_t reach = depth - lane;
      if (batch >= reach) enqueue_wait({WaitId::Kind::slot, lane}, lanes - 1, batch - reach);
      check.drop(lane, batch);
      if (lane > 0) enqueue_wait({WaitId::Kind::handoff, lane}, lane - 1, batch);
      check.run(lane, batch);
      check.record(lane, batch);
    }
  }
  return check.violations().empty();
}

}  // namespace

std::string to_string(const WaitId& wait) {
  const char* kind = wait.kind == WaitId::Kind::handoff ? "handoff" : "slot";
  return std::string(kind) + " wait of lane " + std::to_string(wait.lane);
}

OrderCheck::OrderCheck(std::size_t lanes, std::size_t depth, std::size_t window)
    : depth_(depth),
      window_(window),
      now_(lanes, Clock(lanes, 0)),
      recorded_(lanes, std::vector<Clock>(window)),
      pieces_(depth, std::vector<Piece>(lanes, Piece{{}, std::vector<Clock>(lanes)})) {
  // A lane's own component starts at 1, because 0 means that another lane has seen none of its
  // work.
  for (std::size_t lane = 0; lane < lanes; ++lane) now_[lane][lane] = 1;
}

void OrderCheck::record(std::size_t lane, std::uint64_t batch) {
  recorded_[lane][batch % window_] = now_[lane];
  // The recording does not include the lane's later work.
  ++now_[lane][lane];
}

void OrderCheck::wait(std::size_t lane, std::size_t producer, std::uint64_t batch) {
  const Clock& clock = recorded_[producer][batch % window_];
  ensure(!clock.empty(), "a wait is enqueued after what it waits for was recorded");
  merge(now_[lane], clock);
}

void OrderCheck::drained() {
  Clock all = now_.front();
  for (const Clock& clock : now_) merge(all, clock);
  for (std::size_t lane = 0; lane < now_.size(); ++lane) {
    now_[lane] = all;
    ++now_[lane][lane];
  }
}

void OrderCheck::drop(std::size_t lane, std::uint64_t batch) { write(lane, batch, "drops"); }

void OrderCheck::run(std::size_t lane, std::uint64_t batch) {
  for (std::size_t producer = 0; producer < lane; ++producer) read(lane, producer, batch);
  write(lane, batch, "fills");
}

bool OrderCheck::ordered(const Clock& earlier, const Clock& now) const {
  for (std::size_t i = 0; i < earlier.size(); ++i)
    if (earlier[i] > now[i]) return false;
  return true;
}

void OrderCheck::write(std::size_t lane, std::uint64_t batch, const char* what) {
  Piece& piece = pieces_[batch % depth_][lane];
  for (std::size_t reader = 0; reader < piece.reads.size(); ++reader) {
    if (!piece.reads[reader].empty() && !ordered(piece.reads[reader], now_[lane]))
      report(place(lane, batch) + ", " + what + " its part of the slot while lane " +
             std::to_string(reader) + " may still read it");
  }
  piece.write = now_[lane];
  piece.reads.assign(now_.size(), {});
}

void OrderCheck::read(std::size_t lane, std::size_t producer, std::uint64_t batch) {
  Piece& piece = pieces_[batch % depth_][producer];
  if (piece.write.empty() || !ordered(piece.write, now_[lane]))
    report(place(lane, batch) + " reads what lane " + std::to_string(producer) +
           " may not have written yet");
  piece.reads[lane] = now_[lane];
}

void OrderCheck::report(const std::string& sentence) {
  if (violations_.size() < kMaxViolations) violations_.push_back(sentence);
}

std::vector<WaitId> all_waits(std::size_t lanes) {
  std::vector<WaitId> waits;
  for (std::size_t lane = 0; lane < lanes; ++lane) {
    waits.push_back({WaitId::Kind::slot, lane});
    if (lane > 0) waits.push_back({WaitId::Kind::handoff, lane});
  }
  return waits;
}

std::vector<WaitId> implied_waits(std::size_t lanes, std::size_t depth) {
  std::vector<WaitId> implied;
  for (const WaitId& wait : all_waits(lanes))
    if (is_ordered_without(wait, lanes, depth)) implied.push_back(wait);
  return implied;
}

}  // namespace slipstream
