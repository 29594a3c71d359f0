#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "engine/bound_pipeline.h"
#include "engine/device_step.h"

namespace slipstream {

/// Prepares lanes before their first run. Lanes are identified by their steps and threads, the
/// depth and the wire formats.
class LaneWarmUp {
 public:
  /// `bound` must outlive this.
  explicit LaneWarmUp(const BoundPipeline& bound) : bound_(bound) {}

  /// Runs every lane except the last one alone until its memory is allocated and cuDNN has chosen
  /// algorithms. Returns the memory that PyTorch's allocator reserved for this, which the plan
  /// needs in addition to serial. If the lanes are already warm, it only returns that number. If a
  /// stage does not accept zeros, it does nothing and returns 0. `doing` is used as in
  /// run_frozen().
  std::size_t warm(const Plan& plan, const std::vector<LaneBinding>& lanes, std::string& doing);

  /// Returns true if cuDNN has not yet measured algorithms on the threads of these lanes.
  bool must_tune(const Plan& plan, const std::vector<LaneBinding>& lanes) const;
  void set_tuned(const Plan& plan, const std::vector<LaneBinding>& lanes);

 private:
  /// Fills `depth` slots of every lane except the last, from a batch of zeros. Returns the number
  /// of bytes of a slot.
  std::size_t fill(const Plan& plan, const std::vector<LaneBinding>& lanes,
                   std::string& doing) const;

  const BoundPipeline& bound_;
  std::map<std::string, std::size_t> warmed_;  ///< bytes that warm() measured, by lanes
  std::set<std::string> tuned_;
};

}  // namespace slipstream
