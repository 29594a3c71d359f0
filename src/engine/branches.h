#pragma once

#include <memory>
#include <vector>

#include "core/fork.h"
#include "core/fork_trial.h"
#include "engine/current_lane.h"
#include "slipstream/engine/stage.h"

namespace slipstream {

/// Decides on which lanes one call of the branches runs. The same object is used for forward and
/// later for backward.
class Route {
 public:
  /// Runs all branches on the current stream.
  Route() = default;
  /// Runs the branches of a stage on `lane`: each on a separate lane if `on_streams`, otherwise all
  /// on `lane`. `call` receives the times of a trial; it may be nullptr.
  Route(const CurrentLane& lane, bool on_streams, std::shared_ptr<ForkTrial::Call> call);

  /// Calls work(k) for each branch, one after the other on the calling thread.
  void run(std::size_t branches, ForkPass pass, const std::function<void(std::size_t)>& work);

 private:
  Context* context_ = nullptr;
  Lane* home_ = nullptr;
  bool on_streams_ = false;
  std::shared_ptr<ForkTrial::Call> call_;
};

/// Returns the branches' results, differentiable if gradients are enabled. Throws Error if a branch
/// writes into `input`.
std::vector<at::Tensor> run_branches(Route route, const std::vector<Forward>& branches,
                                     const at::Tensor& input);

}  // namespace slipstream
