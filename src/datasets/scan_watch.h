#pragma once

#include <functional>
#include <utility>

namespace slipstream {

/// While it exists, opening a data set in this thread calls `poll` repeatedly: between the files of
/// a folder, the samples of a shard and the rows of a list. An exception from `poll` ends the
/// opening. It is a property of the thread, so that it also applies inside data sets that wrap
/// others.
class ScanWatch {
 public:
  explicit ScanWatch(std::function<void()> poll)
      : poll_(std::move(poll)), before_(std::exchange(of_thread, &poll_)) {}
  ~ScanWatch() { of_thread = before_; }
  ScanWatch(const ScanWatch&) = delete;
  ScanWatch& operator=(const ScanWatch&) = delete;

  static void poll() {
    if (of_thread != nullptr) (*of_thread)();
  }

 private:
  static inline thread_local const std::function<void()>* of_thread = nullptr;
  std::function<void()> poll_;
  const std::function<void()>* before_;
};

}  // namespace slipstream
