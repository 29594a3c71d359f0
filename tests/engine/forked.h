#pragma once

#include "core/fork.h"
#include "engine/engine.h"
#include "slipstream/engine/fork_join.h"

namespace slipstream::test {

/// Parameters of the pipelines with branches in these tests. The device steps are copy, encode
/// (frozen branches) and train.
struct Forked {
  /// Without a mode, branches are called one after the other, without a ForkJoin.
  std::optional<ForkMode> mode = ForkMode::streams;
  bool nested = false;    ///< one branch is itself a ForkJoin
  std::int64_t size = 8;  ///< height and width
  std::size_t batch_size = 4;
  /// Called in the middle branch of the trained module with its result, and before the loss.
  std::function<at::Tensor(const at::Tensor&)> in_a_branch = {};
  std::function<void()> before_loss = {};
};

/// Returns a pipeline that trains a convolution, branches on its output (three convolutions with
/// dropout, and a view of the input), dropout and a convolution.
Pipeline forked_pipeline(const Forked& forked);

}  // namespace slipstream::test
