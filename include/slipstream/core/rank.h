#pragma once

#include <cstddef>

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

}  // namespace slipstream
