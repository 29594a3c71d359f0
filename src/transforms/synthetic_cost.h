#pragma once

#include <cstddef>
#include <cstdint>

#include "slipstream/transforms/op.h"

namespace slipstream {

/// How a cost differs from one payment to the next. Its mean stays as it is stated.
enum class CostVariation : std::uint8_t {
  none,
  heavy_tail,  ///< log-normal, each payment on its own
  bursts       ///< runs of payments are free, but for one run in 1 + cv^2, which costs all
};

/// What a step costs on top of what it does, once a sample: all of these, one after the other.
struct SyntheticCost {
  double sleep_s = 0;            ///< waiting, as for slow storage
  double cpu_s = 0;              ///< CPU time of the calling thread
  std::size_t memory_bytes = 0;  ///< read from a buffer larger than caches: memory traffic
  bool lock = false;             ///< held meanwhile: one for all threads
  CostVariation variation = CostVariation::none;  ///< of all that is paid
  double cv = 1;           ///< standard deviation / mean, at most 10; of none: not used
  std::size_t burst = 64;  ///< payments of a run, in the order in which threads come
  std::uint64_t seed = 1;  ///< of what is drawn: payment n is the same in every program

  bool is_free() const { return sleep_s == 0 && cpu_s == 0 && memory_bytes == 0; }
};

/// `op` with a known cost, to find out whether a diagnosis finds it. It is the same operation
/// otherwise: name, values, what it draws, and what get_if() finds. Each sample pays once, on the
/// loader's thread; where the device does the operation, nobody pays. Copies share the lock and the
/// count of payments. With memory_bytes, a buffer of 256 MiB is taken. Throws Refused for a cost
/// that is negative or over an hour, and a variation that makes no sense.
AnyOp with_cost(AnyOp op, const SyntheticCost& cost);

}  // namespace slipstream
