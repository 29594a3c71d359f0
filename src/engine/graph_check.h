#pragma once

#include <ATen/core/Tensor.h>

#include <span>
#include <vector>

namespace slipstream {

/// Compares what a replay of recorded work computes with what the work itself computes from the
/// same state. All copies are on the current stream.
class GraphCheck {
 public:
  /// Copies `state`, the tensors that the work changes.
  explicit GraphCheck(std::vector<at::Tensor> state);

  /// Copies the state and the results after a replay. Called once or, to measure how much two
  /// replays differ by rounding, twice.
  void add_replay(const std::vector<at::Tensor>& results);
  /// Copies the values at construction to the state.
  void restore() const;
  /// Returns true if the state and `results`, computed by the work itself, equal those of the
  /// replay. Waits for the device. If `is_deterministic`, all bits must be equal. Otherwise a
  /// tensor may differ by 1 % of its change, and by several times the difference of two replays.
  bool matches(const std::vector<at::Tensor>& results, bool is_deterministic) const;

 private:
  std::vector<at::Tensor> state_, before_;
  std::vector<std::vector<at::Tensor>> replays_;
};

}  // namespace slipstream
