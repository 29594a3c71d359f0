#pragma once

#include <cstddef>
#include <system_error>
#include <thread>
#include <utility>

namespace slipstream {

/// Throws Error with the reason why no thread can be started and what to do.
[[noreturn]] void fail_to_start_a_thread(const std::system_error& why);

/// Starts a thread that runs `work`. Throws Error if the system cannot start it.
template <typename Work>
std::jthread start_thread(Work&& work) {
  try {
    return std::jthread(std::forward<Work>(work));
  } catch (const std::system_error& why) {
    fail_to_start_a_thread(why);
  }
}

/// Checks that `count` threads can exist at the same time: starts them and joins them. Throws Error
/// if the system does not start them.
void require_threads(std::size_t count);

}  // namespace slipstream
