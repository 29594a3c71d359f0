#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace slipstream {

/// How caches are filled with samples.
enum class CacheFilling : std::uint8_t {
  before_turns,  ///< all workers fill one level's cache before each turn, outside of its time
  in_turns,      ///< all workers fill one level's cache at the beginning of each turn's time
  at_once        ///< one process fills the caches of all levels once; workers get copies
};

/// Costs of samples that a single worker produced.
struct SampleCosts {
  std::vector<double> seconds;  ///< seconds of each sample, summed over all steps
  std::vector<double> bytes;    ///< mean size of each step's result; 0: not known
  CacheFilling filling = CacheFilling::before_turns;
};

/// Decides how many samples or batches the caches of the measured levels contain.
class CacheSizes {
 public:
  struct Limits {
    double budget_s;         ///< time for the whole examination
    double free_bytes;       ///< free host memory
    double cpu_cache_bytes;  ///< size of the CPU's last cache level
  };

  /// `samples_per_second`: rate of all workers together.
  CacheSizes(SampleCosts costs, double samples_per_second, std::size_t batch_size,
             const Limits& limits);

  /// Seconds that all workers together need for a batch; 0 if not known.
  double batch_s() const;
  /// Number of batches in a cache of batches.
  std::size_t batches() const;
  /// Number of samples in the cache after host step `step`. If memory and time allow, there are
  /// enough of them that their mean cost is within 5 % of the mean cost of all samples, and that
  /// they do not fit into the CPU's caches, which would make them cheaper to read than real
  /// samples.
  std::size_t samples_after(std::size_t step) const;

 private:
  double samples_in_time() const;

  SampleCosts costs_;
  double samples_per_second_;
  double batch_size_;
  Limits limits_;
};

}  // namespace slipstream
