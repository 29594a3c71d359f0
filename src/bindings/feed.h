#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/utils/pybind.h>

#include <vector>

#include "slipstream/core/lane.h"

namespace slipstream {

/// The source of a loop's batches. One thread at a time calls it, without the GIL.
class Feed {
 public:
  virtual ~Feed() = default;
  /// Returns whether take() would return without waiting.
  virtual bool ready() = 0;
  /// Waits for the next batch. Returns false if there is none. Throws the source's exceptions.
  virtual bool take() = 0;
  /// Returns the taken batch on the device. Enqueues the copy on the stream of `lane`, which is the
  /// current stream. Needs the GIL.
  virtual pybind11::object moved(Lane& lane) = 0;
  /// Whether the taken batch is already in device memory, in use on the caller's stream.
  virtual bool is_on_device() const { return false; }

  /// Whether a separate thread should call this feed, with move() instead of moved(). This is so
  /// for a feed whose work takes long and needs no Python.
  virtual bool wants_thread() const { return false; }
  virtual std::vector<at::Tensor> move(Lane&) { return {}; }
  /// Makes take() return soon. Called from another thread.
  virtual void interrupt() {}
  /// Called before the first take() if a separate thread calls this feed.
  void move_to_thread() { is_on_thread_ = true; }
  bool is_on_thread() const { return is_on_thread_; }

 private:
  bool is_on_thread_ = false;
};

}  // namespace slipstream
