#pragma once

#include <cstddef>
#include <system_error>
#include <thread>
#include <utility>

namespace slipstream {

/// Throws Error: why no thread can be started, and what to do.
[[noreturn]] void fail_to_start_a_thread(const std::system_error& why);

/// A thread that does `work`. Throws Error where the system starts no more.
template <typename Work>
std::jthread start_thread(Work&& work) {
  try {
    return std::jthread(std::forward<Work>(work));
  } catch (const std::system_error& why) {
    fail_to_start_a_thread(why);
  }
}

/// Starts `count` threads that are there at the same time, and ends them. Throws Error where the
/// system does not start them.
void require_threads(std::size_t count);

}  // namespace slipstream
