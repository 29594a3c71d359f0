#include "python/loop_input.h"

#include <utility>

namespace slipstream {
namespace {

namespace py = pybind11;

bool is_of_handler(const py::error_already_set& error) {
  const py::object told = py::module_::import("slipstream._signals").attr("is_of_handler");
  return told(error.value(), error.trace()).cast<bool>();
}

}  // namespace

LoopInput::LoopInput(std::shared_ptr<Feed> feed, DrawOrder& draws)
    : feed_(std::move(feed)), draws_(draws) {}

bool LoopInput::ready() { return has_item_ || has_ended_ || feed_->ready(); }

bool LoopInput::is_over() {
  if (!has_item_ && !has_ended_) {
    has_item_ = take();
    has_ended_ = !has_item_;
  }
  return has_ended_;
}

bool LoopInput::take() {
  const bool is_on_thread = feed_->is_on_thread();
  if (!is_on_thread) {
    const py::gil_scoped_acquire locked;
    if (PyErr_CheckSignals() != 0) throw py::error_already_set();
  }
  // The first time, a loader draws ahead of everything else, as in a plain loop.
  const bool is_looking = !is_on_thread && taken_ > 0 && DrawOrder::looks_at(taken_);
  try {
    if (is_looking) draws_.begin();
    const bool is_there = feed_->take();
    if (is_looking) draws_.end(DrawOrder::kLoader);
    ++taken_;
    return is_there;
  } catch (const py::error_already_set& error) {
    const py::gil_scoped_acquire locked;
    if (!error.matches(PyExc_Exception) || is_of_handler(error)) throw;
    error_ = std::current_exception();
  } catch (...) {
    error_ = std::current_exception();
  }
  return false;
}

py::object LoopInput::moved(Lane& lane) {
  has_item_ = false;
  return feed_->moved(lane);
}

std::vector<at::Tensor> LoopInput::move(Lane& lane) {
  has_item_ = false;
  return feed_->move(lane);
}

void LoopInput::rethrow() {
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
}

}  // namespace slipstream
