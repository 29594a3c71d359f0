#pragma once

#include <torch/csrc/utils/pybind.h>

#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <vector>

#include "bindings/draws.h"
#include "bindings/feed.h"
#include "slipstream/core/step_counter.h"

namespace slipstream {

/// Takes batches from a loop's feed, one at a time. One thread uses it, without the GIL.
class LoopInput {
 public:
  /// Takes at most `limit` batches from the feed; the others stay in it.
  LoopInput(std::shared_ptr<Feed> feed, std::uint64_t limit, DrawOrder& draws);

  bool wants_thread() const { return feed_->wants_thread(); }
  /// Call this before all other functions if that thread is not the loop's thread.
  void move_to_thread() { feed_->move_to_thread(); }
  /// Whether is_over() would return without waiting.
  bool ready();
  /// Takes the next batch unless one is already taken, and returns whether there is none. An
  /// error of the loader takes the place of a batch, and moved() or move() throws it. Only errors
  /// for which ends_loop_at_once() is true are thrown here.
  bool is_over();
  bool is_on_device() const { return !error_ && feed_->is_on_device(); }
  /// Whether an error of the loader took the place of the taken batch.
  bool has_failed() const { return error_ != nullptr; }
  /// Called when the caller has received the loader's error and requests a batch again. Until then
  /// ready() is false, because a plain loop would not call the loader before.
  void resume() { awaits_resume_ = false; }
  /// Returns the taken batch of a feed without a thread. Needs the GIL.
  pybind11::object moved(Lane& lane);
  /// Returns the taken batch of a feed with a thread.
  std::vector<at::Tensor> move(Lane& lane);

  /// Makes is_over() return soon. Any thread may call this.
  void interrupt() { feed_->interrupt(); }
  /// Number of taken batches, including errors. Any thread may call this.
  std::uint64_t taken() const { return taken_; }
  /// Returns the cost of taking batches on the loop's thread since the first call. Stays 0 if a
  /// separate thread takes them.
  const StepCounter& taking() {
    counts_taking_ = true;
    return taking_;
  }
  /// Releases the feed. Needs the GIL. The count of taken batches stays.
  void end() { feed_.reset(); }

 private:
  bool take();
  bool has_taken_all() const { return taken_ >= limit_; }

  std::shared_ptr<Feed> feed_;
  const std::uint64_t limit_;
  DrawOrder& draws_;
  std::exception_ptr error_;
  bool has_item_ = false, has_ended_ = false;
  std::atomic<bool> awaits_resume_ = false;
  std::atomic<std::uint64_t> taken_ = 0;
  StepCounter taking_;
  bool counts_taking_ = false;  ///< reading the CPU time is a system call
};

}  // namespace slipstream
