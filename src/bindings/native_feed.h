#pragma once

#include <torch/csrc/utils/pybind.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "bindings/feed.h"
#include "bindings/interrupts.h"
#include "bindings/native_loader.h"

namespace slipstream {

/// The rest of an epoch of a native loader.
class NativeFeed final : public Feed {
 public:
  explicit NativeFeed(std::shared_ptr<NativeLoader> loader);

  bool ready() override;
  bool take() override;
  pybind11::object moved(Lane& lane) override;
  bool wants_thread() const override { return loader_->wants_thread(); }
  std::vector<at::Tensor> move(Lane& lane) override { return batch(lane).tensors; }
  void interrupt() override { is_interrupted_ = true; }

 private:
  bool is_over() const;
  GivenBatch batch(Lane& lane);

  std::shared_ptr<NativeLoader> loader_;
  std::uint64_t pass_;
  std::uint64_t end_ = 0;  ///< position after the epoch's last batch, if the order is computed
  std::atomic<bool> is_interrupted_ = false;
  SignalPoll signals_;
};

}  // namespace slipstream
