#include "bindings/native_feed.h"

#include <chrono>
#include <thread>
#include <utility>

#include "bindings/gil.h"
#include "core/number_text.h"
#include "core/seconds_since.h"
#include "slipstream/core/error.h"

namespace slipstream {
namespace {

namespace py = pybind11;

/// Time between two checks for a late batch.
constexpr auto kPoll = std::chrono::microseconds(100);

}  // namespace

NativeFeed::NativeFeed(std::shared_ptr<NativeLoader> loader)
    : loader_(std::move(loader)), pass_(loader_->passes()) {
  if (loader_->is_listed()) return;
  const std::uint64_t epoch = loader_->batches_per_epoch();
  end_ = (loader_->position() / epoch + 1) * epoch;
}

bool NativeFeed::is_over() const {
  return loader_->is_listed() ? loader_->is_over() : loader_->position() >= end_;
}

bool NativeFeed::ready() { return is_over() || loader_->ready(); }

bool NativeFeed::take() {
  // Polls instead of waiting in the loader, so that interrupt() and Ctrl-C can end the wait.
  const auto begin = std::chrono::steady_clock::now();
  while (loader_->passes() == pass_ && !loader_->ready()) {
    if (is_interrupted_ || is_over()) return false;
    if (loader_->timeout_s() > 0 && seconds_since(begin) > loader_->timeout_s())
      throw Error("no batch was ready within timeout=" + number_text(loader_->timeout_s()) +
                  " s: give more workers or a longer timeout, or find what a sample waits for");
    std::this_thread::sleep_for(kPoll);
    if (!is_on_thread()) signals_();
  }
  if (is_over()) return false;
  loader_->take(pass_);
  return true;
}

GivenBatch NativeFeed::batch(Lane& lane) {
  const bool is_cuda = loader_->context().device().is_cuda();
  return is_cuda ? loader_->on_device(pass_, lane) : loader_->on_host(pass_);
}

py::object NativeFeed::moved(Lane& lane) {
  GivenBatch made;
  {
    const GilRelease unlocked;
    made = batch(lane);
  }
  return loader_->built(made);
}

}  // namespace slipstream
