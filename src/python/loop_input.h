#pragma once

#include <torch/csrc/utils/pybind.h>

#include <cstdint>
#include <exception>
#include <memory>
#include <vector>

#include "python/draws.h"
#include "python/feed.h"

namespace slipstream {

/// What a loop takes from its feed, a batch at a time. By one thread, without Python's lock.
class LoopInput {
 public:
  LoopInput(std::shared_ptr<Feed> feed, DrawOrder& draws);

  bool wants_thread() const { return feed_->wants_thread(); }
  /// Ahead of the rest: that thread is not the loop's.
  void go_to_thread() { feed_->go_to_thread(); }
  /// Whether is_over() would return without waiting.
  bool ready();
  /// Takes the next batch, where none is taken. What a loader raises waits for the batches ahead of
  /// it: then there is no next one. Ctrl-C and exits come out at once, as does what the program's
  /// signal handlers raise.
  bool is_over();
  bool is_on_device() const { return feed_->is_on_device(); }
  /// The batch that was taken, of a feed without a thread, with Python's lock.
  pybind11::object moved(Lane& lane);
  /// The same of a feed that has one.
  std::vector<at::Tensor> move(Lane& lane);

  /// Behind the last batch, by any thread: throws what the feed threw, once.
  void rethrow();
  /// By any thread: is_over() returns soon.
  void interrupt() { feed_->interrupt(); }
  /// Lets go of the feed: rethrow() is all that may follow. Needs Python's lock.
  void end() { feed_.reset(); }

 private:
  bool take();

  std::shared_ptr<Feed> feed_;
  DrawOrder& draws_;
  std::exception_ptr error_;
  bool has_item_ = false, has_ended_ = false;
  std::uint64_t taken_ = 0;
};

}  // namespace slipstream
