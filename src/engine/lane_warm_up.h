#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "engine/bound_pipeline.h"
#include "engine/device_step.h"

namespace slipstream {

/// What lanes need once, ahead of their first run. Lanes are known by their steps and threads, the
/// depth and the wire formats.
class LaneWarmUp {
 public:
  /// `bound` must outlive this.
  explicit LaneWarmUp(const BoundPipeline& bound) : bound_(bound) {}

  /// Runs every lane but the last on its own until its memory is warm and cuDNN has tuned, and
  /// returns what PyTorch's allocator took for it: what the plan needs beyond serial. Where the
  /// lanes are warm, it returns that alone. Does nothing, and returns 0, where a stage does not
  /// take zeros. `doing`: as of run_frozen().
  std::size_t warm(const Plan& plan, const std::vector<LaneBinding>& lanes, std::string& doing);

  /// Whether the threads of these lanes have still to let cuDNN measure.
  bool must_tune(const Plan& plan, const std::vector<LaneBinding>& lanes) const;
  void set_tuned(const Plan& plan, const std::vector<LaneBinding>& lanes);

 private:
  /// Fills `depth` slots of every lane but the last, from a batch of zeros; returns a slot's bytes.
  std::size_t fill(const Plan& plan, const std::vector<LaneBinding>& lanes,
                   std::string& doing) const;

  const BoundPipeline& bound_;
  std::map<std::string, std::size_t> warmed_;  ///< bytes that warm() took
  std::set<std::string> tuned_;
};

}  // namespace slipstream
