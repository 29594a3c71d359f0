#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace slipstream {

/// How caches are filled with samples.
enum class CacheFilling : std::uint8_t {
  before_turns,  ///< by all workers, for one level and one turn, before the turn's time begins
  in_turns,      ///< by all workers, for one level and one turn, in the turn's time
  at_once        ///< by one process, once for all levels; worker processes get copies
};

/// What samples cost that one worker made.
struct SampleCosts {
  std::vector<double> seconds;  ///< of single samples, in all steps together
  std::vector<double> bytes;    ///< mean size of each step's result; 0: not known
  CacheFilling filling = CacheFilling::before_turns;
};

/// How much the caches hold that levels are measured with.
class CacheSizes {
 public:
  struct Limits {
    double budget_s;         ///< of the examination
    double free_bytes;       ///< of memory
    double cpu_cache_bytes;  ///< of the CPU's last cache level
  };

  /// `samples_per_second`: that all workers make.
  CacheSizes(SampleCosts costs, double samples_per_second, std::size_t batch_size,
             const Limits& limits);

  /// Seconds that all workers take for a batch; 0: not known.
  double batch_s() const;
  /// Batches that a cache of batches holds.
  std::size_t batches() const;
  /// Samples that the cache after host step `step` holds. Their mean cost is within 5 % of all
  /// samples', and they take more memory than the CPU's caches have, as far as memory and the time
  /// it takes to make them allow.
  std::size_t samples_after(std::size_t step) const;

 private:
  double samples_in_time() const;

  SampleCosts costs_;
  double samples_per_second_;
  double batch_size_;
  Limits limits_;
};

}  // namespace slipstream
