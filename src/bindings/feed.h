#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/utils/pybind.h>

#include <vector>

#include "slipstream/core/lane.h"

namespace slipstream {

/// Where the batches of a loop come from. Called by one thread, without Python's lock.
class Feed {
 public:
  virtual ~Feed() = default;
  /// Whether take() would return without waiting.
  virtual bool ready() = 0;
  /// Waits for the next batch. False where there is none. Throws what the source threw.
  virtual bool take() = 0;
  /// The batch that was taken, on the device, enqueued on `lane`, whose stream is the current one.
  virtual pybind11::object moved(Lane& lane) = 0;
  /// Whether the batch that was taken has memory of the device already, in use on the caller's
  /// stream.
  virtual bool is_on_device() const { return false; }

  /// Whether a thread of its own is to call it, with move() in the place of moved(): no Python has
  /// a part in it, and it takes long.
  virtual bool wants_thread() const { return false; }
  virtual std::vector<at::Tensor> move(Lane&) { return {}; }
  /// From another thread: take() returns soon.
  virtual void interrupt() {}
  /// Ahead of the first take().
  void move_to_thread() { is_on_thread_ = true; }
  bool is_on_thread() const { return is_on_thread_; }

 private:
  bool is_on_thread_ = false;
};

}  // namespace slipstream
