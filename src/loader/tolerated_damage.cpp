#include "loader/tolerated_damage.h"

#include "slipstream/core/error.h"

namespace slipstream {

void ToleratedDamage::add(const Dataset& dataset, std::uint64_t sample,
                          const std::string& warning) {
  const Lock lock(mutex_);
  const auto [at, is_new] = known_.try_emplace(sample);
  if (is_new)
    at->second = "sample " + std::to_string(sample) + " (" + printable_name(dataset.name(sample)) +
                 "): " + warning;
}

std::vector<SkippedSample> ToleratedDamage::samples() const {
  std::vector<SkippedSample> all;
  const Lock lock(mutex_);
  for (const auto& [sample, message] : known_) all.push_back({sample, message});
  return all;
}

}  // namespace slipstream
