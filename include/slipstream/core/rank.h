#pragma once

#include <cstddef>
#include <cstdint>

namespace slipstream {

/// One of the processes that train together, each of which loads a part of every step's batch.
/// Step k takes batch_size x count samples of the epoch's order, rank 0 the first batch_size of
/// them, rank 1 the next, and so on: so what is trained at step k depends on that product alone,
/// ranks are disjoint, and all have equally many batches.
struct Rank {
  std::size_t index = 0;  ///< below count
  std::size_t count = 1;
  bool operator==(const Rank&) const = default;
};

/// What becomes of the last samples of an epoch's order, too few for a batch of every rank. `drop`:
/// left out. `pad`: the batches are filled up from the beginning of that epoch's order, whose
/// samples are taken a second time (another occurrence, so they are drawn anew).
enum class Uneven : std::uint8_t { drop, pad };

}  // namespace slipstream
