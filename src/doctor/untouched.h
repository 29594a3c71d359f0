#pragma once

#include <ATen/core/Generator.h>

#include <vector>

#include "slipstream/run/trainer.h"

namespace slipstream {

/// A trainer and PyTorch's default generators as they were when this was made: put back on demand
/// and at the end.
class Untouched {
 public:
  explicit Untouched(Trainer& trainer);
  ~Untouched();
  Untouched(const Untouched&) = delete;
  Untouched& operator=(const Untouched&) = delete;

  void put_back();

 private:
  Trainer& trainer_;
  State state_;
  std::vector<at::Generator> generators_;
  std::vector<at::Tensor> generator_states_;
};

}  // namespace slipstream
