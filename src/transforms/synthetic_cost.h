#pragma once

#include <cstddef>
#include <cstdint>

#include "slipstream/transforms/op.h"

namespace slipstream {

/// How a cost varies from call to call. Its mean does not change.
enum class CostVariation : std::uint8_t {
  none,
  heavy_tail,  ///< log-normal, independent for each call
  bursts       ///< runs of calls are free, except one run in 1 + cv^2, which costs everything
};

/// Additional cost of a step per sample, for tests of diagnoses: all of these, one after the other.
struct SyntheticCost {
  double sleep_s = 0;            ///< waiting, as for slow storage
  double cpu_s = 0;              ///< CPU time of the calling thread
  std::size_t memory_bytes = 0;  ///< read from a buffer larger than caches: memory traffic
  bool lock = false;             ///< if true, one lock for all threads is held meanwhile
  CostVariation variation = CostVariation::none;  ///< applies to all these costs together
  double cv = 1;           ///< standard deviation / mean, at most 10; not used without variation
  std::size_t burst = 64;  ///< calls per run, in the order in which threads make them
  std::uint64_t seed = 1;  ///< random seed: the cost of call n is the same in every program

  bool is_free() const { return sleep_s == 0 && cpu_s == 0 && memory_bytes == 0; }
};

/// Returns `op` with a known additional cost, to test whether a diagnosis finds it. Name, values,
/// random parameters and get_if() are unchanged. Each sample costs time once, on the loader's
/// thread; it costs nothing where the device runs the operation. Copies share the lock and the
/// count of calls. With memory_bytes, a buffer of 256 MiB is allocated. Throws Refused for a cost
/// that is negative or over an hour, and for an invalid variation.
AnyOp with_cost(AnyOp op, const SyntheticCost& cost);

}  // namespace slipstream
