#pragma once

#include "core/fork.h"
#include "engine/engine.h"
#include "slipstream/engine/fork_join.h"

namespace slipstream::test {

/// What differs between the pipelines with branches of these tests. Device steps: copy, encode
/// (frozen branches), train.
struct Forked {
  /// Without one, branches are called one after the other, as if there were no ForkJoin.
  std::optional<ForkMode> mode = ForkMode::streams;
  bool nested = false;    ///< one branch is a ForkJoin itself
  std::int64_t size = 8;  ///< height and width
  std::size_t batch_size = 4;
  /// Called in the middle branch of the trained module with its result, and before the loss.
  std::function<at::Tensor(const at::Tensor&)> in_a_branch = {};
  std::function<void()> before_loss = {};
};

/// Trains a convolution, branches on its result (three convolutions with dropout, and a view of the
/// input), dropout and a convolution.
Pipeline forked_pipeline(const Forked& forked);

}  // namespace slipstream::test
