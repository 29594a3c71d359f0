#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/trace.h"
#include "engine/device_step.h"
#include "slipstream/engine/context.h"

namespace slipstream {

/// Records when the lanes of a run executed each step and, on a GPU, when the host enqueued it.
class LaneTrace {
 public:
  /// `window` is the number of batches whose marks are needed at once. Waits for the first lane.
  LaneTrace(TraceRecorder& recorder, Context& context, std::span<const LaneBinding> lanes,
            std::size_t window, std::uint64_t first_step);

  /// Records that the host executes or enqueues step `step` of a lane, from construction to
  /// destruction. Does nothing if `trace` is nullptr.
  class Step {
   public:
    Step(LaneTrace* trace, std::size_t lane, std::uint64_t batch, std::size_t step);
    ~Step();
    Step(const Step&) = delete;
    Step& operator=(const Step&) = delete;
    /// Records the end of the step. Not called if the step threw.
    void done();

   private:
    LaneTrace* trace_;  ///< nullptr if this batch is not recorded
    std::size_t lane_;
    std::uint64_t batch_;
    std::size_t step_;
    std::int64_t begin_ns_ = 0;
    bool in_range_ = false;  ///< whether an NVTX range is open
  };

  /// Called like Work::completed. `end_s` has the end of each lane, in seconds since the first lane
  /// began the run's first batch.
  void completed(std::uint64_t batch, std::span<const double> end_s,
                 std::span<const Mark* const> begin, std::span<const Mark* const> end);

 private:
  struct TracedLane {
    Lane* lane = nullptr;
    std::vector<std::string> steps;
    TraceWriter device, host;
    /// End marks of every step except the last, indexed [batch modulo window][step].
    std::vector<std::vector<std::unique_ptr<Mark>>> ends;
  };

  void join_clocks(TraceRecorder& recorder);
  std::unique_ptr<Mark>& end_mark(TracedLane& lane, std::uint64_t batch, std::size_t step) const {
    return lane.ends[batch % lane.ends.size()][step];
  }

  std::vector<TracedLane> lanes_;
  std::uint64_t first_step_;
  bool on_gpu_;
  std::unique_ptr<Mark> origin_;
  std::int64_t origin_ns_ = 0;  ///< when origin_ was, on the host's clock
  double first_begin_s_ = 0;    ///< begin of the first batch, in seconds after origin_
};

}  // namespace slipstream
