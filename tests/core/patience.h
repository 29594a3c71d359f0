#pragma once

#include <chrono>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <thread>

#include "core/sync.h"

namespace slipstream::test {

/// Time limit for events that must happen. Reaching it is always an error of the test, never a
/// valid outcome.
inline constexpr std::chrono::milliseconds kPatience{60'000};

class TimedOut : public std::runtime_error {
 public:
  explicit TimedOut(const std::string& what) : std::runtime_error("waited in vain: " + what) {}
};

template <typename Condition>
void eventually(const std::string& what, const Condition& condition) {
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) throw TimedOut(what);
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
}

/// A number that only grows: counts permits or progress, or serves as a latch.
class Counter {
 public:
  void add(std::uint64_t n = 1) SLIPSTREAM_EXCLUDES(mutex_) {
    {
      Lock lock(mutex_);
      value_ += n;
    }
    changed_.notify_all();
  }

  std::uint64_t value() SLIPSTREAM_EXCLUDES(mutex_) {
    Lock lock(mutex_);
    return value_;
  }

  void await(std::uint64_t at_least, const std::string& what,
             std::chrono::milliseconds patience = kPatience) SLIPSTREAM_EXCLUDES(mutex_) {
    const auto deadline = std::chrono::system_clock::now() + patience;
    Lock lock(mutex_);
    while (value_ < at_least) {
      if (changed_.wait_until(lock, deadline) == std::cv_status::timeout && value_ < at_least)
        throw TimedOut(what);
    }
  }

 private:
  Mutex mutex_;
  ConditionVariable changed_;
  std::uint64_t value_ SLIPSTREAM_GUARDED_BY(mutex_) = 0;
};

}  // namespace slipstream::test
