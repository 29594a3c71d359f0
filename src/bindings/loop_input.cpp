#include "bindings/loop_input.h"

#include <utility>

#include "bindings/gil.h"
#include "bindings/loop_error.h"
#include "engine/counting.h"

namespace slipstream {

namespace py = pybind11;

LoopInput::LoopInput(std::shared_ptr<Feed> feed, std::uint64_t limit, DrawOrder& draws)
    : feed_(std::move(feed)), limit_(limit), draws_(draws) {}

bool LoopInput::ready() {
  return has_item_ || has_ended_ || has_taken_all() || (!awaits_resume_ && feed_->ready());
}

bool LoopInput::is_over() {
  if (!has_item_ && !has_ended_) {
    has_item_ = !has_taken_all() && take();
    has_ended_ = !has_item_;
  }
  return has_ended_;
}

bool LoopInput::take() {
  // A feed on a separate thread calls no Python, so it cannot use the generators that are checked,
  // and its thread must not wait for the GIL.
  const bool is_on_thread = feed_->is_on_thread();
  const Counting counting(counts_taking_ && !is_on_thread ? &taking_ : nullptr);
  if (!is_on_thread) {
    const GilAcquire locked;
    if (PyErr_CheckSignals() != 0) throw py::error_already_set();
    draws_.begin();
  }
  bool is_there = true;
  try {
    is_there = with_python_errors([this] { return feed_->take(); });
  } catch (const py::error_already_set& error) {
    if (ends_loop_at_once(error)) throw;
    error_ = std::current_exception();
  } catch (const std::exception&) {
    error_ = std::current_exception();
  }
  if (!is_on_thread) {
    const GilAcquire locked;
    draws_.end(DrawOrder::kLoader, {taken_, 0});
  }
  awaits_resume_ = error_ != nullptr;
  if (is_there) ++taken_;
  return is_there;
}

py::object LoopInput::moved(Lane& lane) {
  has_item_ = false;
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
  return feed_->moved(lane);
}

std::vector<at::Tensor> LoopInput::move(Lane& lane) {
  has_item_ = false;
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
  return feed_->move(lane);
}

}  // namespace slipstream
