#pragma once

#include <torch/csrc/utils/pybind.h>

#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <vector>

#include "bindings/draws.h"
#include "bindings/feed.h"

namespace slipstream {

/// What a loop takes from its feed, a batch at a time. By one thread, without Python's lock.
class LoopInput {
 public:
  LoopInput(std::shared_ptr<Feed> feed, DrawOrder& draws);

  bool wants_thread() const { return feed_->wants_thread(); }
  /// Ahead of the rest: that thread is not the loop's.
  void move_to_thread() { feed_->move_to_thread(); }
  /// Whether is_over() would return without waiting.
  bool ready();
  /// Takes the next batch, where none is taken. What a loader raises takes the place of a batch:
  /// moved() or move() throws it. What ends_loop_at_once() is thrown here.
  bool is_over();
  bool is_on_device() const { return !error_ && feed_->is_on_device(); }
  /// Whether the batch that is taken is an error of the loader.
  bool has_failed() const { return error_ != nullptr; }
  /// The caller got the loader's error and asks for a batch again: ready() is false until then, for
  /// a plain loop would not ask the loader before.
  void resume() { awaits_resume_ = false; }
  /// The batch that was taken, of a feed without a thread, with Python's lock.
  pybind11::object moved(Lane& lane);
  /// The same of a feed that has one.
  std::vector<at::Tensor> move(Lane& lane);

  /// By any thread: is_over() returns soon.
  void interrupt() { feed_->interrupt(); }
  /// Batches taken, errors among them. By any thread.
  std::uint64_t taken() const { return taken_; }
  /// Lets go of the feed. Needs Python's lock. Batches taken before stay counted.
  void end() { feed_.reset(); }

 private:
  bool take();

  std::shared_ptr<Feed> feed_;
  DrawOrder& draws_;
  std::exception_ptr error_;
  bool has_item_ = false, has_ended_ = false;
  std::atomic<bool> awaits_resume_ = false;
  std::atomic<std::uint64_t> taken_ = 0;
};

}  // namespace slipstream
