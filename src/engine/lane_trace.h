#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/trace.h"
#include "engine/device_step.h"
#include "slipstream/engine/context.h"

namespace slipstream {

/// Records when the lanes of a run did each step, and on a GPU when the host enqueued it.
class LaneTrace {
 public:
  /// `window`: of how many batches the marks are needed at once. Waits for the first lane.
  LaneTrace(TraceRecorder& recorder, Context& context, std::span<const LaneBinding> lanes,
            std::size_t window, std::uint64_t first_step);

  /// While the host does or enqueues step `step` of a lane. With no `trace` it does nothing.
  class Step {
   public:
    Step(LaneTrace* trace, std::size_t lane, std::uint64_t batch, std::size_t step);
    ~Step();
    Step(const Step&) = delete;
    Step& operator=(const Step&) = delete;
    /// The step is done or enqueued; not called where it threw.
    void done();

   private:
    LaneTrace* trace_;  ///< nullptr where nothing is wanted of this batch
    std::size_t lane_;
    std::uint64_t batch_;
    std::size_t step_;
    std::int64_t begin_ns_ = 0;
    bool in_range_ = false;  ///< of NVTX
  };

  /// As Work::retired; `end_s`: of each lane, since the first lane's begin of the run's first
  /// batch.
  void retired(std::uint64_t batch, std::span<const double> end_s,
               std::span<const Mark* const> begin, std::span<const Mark* const> end);

 private:
  struct TracedLane {
    Lane* lane = nullptr;
    std::vector<std::string> steps;
    TraceWriter device, host;
    /// [batch modulo window][step]: the end of every step but the last.
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
  double first_begin_s_ = 0;    ///< of the first batch, after origin_
};

}  // namespace slipstream
