#pragma once

#include <memory>
#include <vector>

#include "core/fork.h"
#include "core/fork_trial.h"
#include "engine/current_lane.h"
#include "slipstream/engine/stage.h"

namespace slipstream {

/// Where one call of the branches goes, and later its way back.
class Route {
 public:
  /// On the current stream alone.
  Route() = default;
  /// From `lane`, on its branches' lanes or on itself. `call` may be nullptr.
  Route(const CurrentLane& lane, bool on_streams, std::shared_ptr<ForkTrial::Call> call);

  /// work(k) for each branch, in turn.
  void run(std::size_t branches, ForkPass pass, const std::function<void(std::size_t)>& work);

 private:
  Context* context_ = nullptr;
  Lane* home_ = nullptr;
  bool on_streams_ = false;
  std::shared_ptr<ForkTrial::Call> call_;
};

/// The branches' results, differentiable where gradients are on. Throws Error when a branch writes
/// into `input`.
std::vector<at::Tensor> run_branches(Route route, const std::vector<Forward>& branches,
                                     const at::Tensor& input);

}  // namespace slipstream
