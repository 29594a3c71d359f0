#include "core/start_thread.h"

#include <latch>
#include <vector>

#include "slipstream/core/error.h"

namespace slipstream {

void fail_to_start_a_thread(const std::system_error& why) {
  throw Error("cannot start a thread: " + why.code().message() +
              "; use fewer workers (num_workers), fewer threads for each of PyTorch's operations "
              "(OMP_NUM_THREADS, torch.set_num_threads()), or raise the limits of this process "
              "(ulimit -u, ulimit -v)");
}

void require_threads(std::size_t count) {
  // Threads wait here, so that all of them exist at once: a limit on threads shows only then.
  std::latch all(1);
  std::vector<std::jthread> threads;
  threads.reserve(count);
  try {
    while (threads.size() < count) threads.push_back(start_thread([&all] { all.wait(); }));
  } catch (...) {
    all.count_down();
    throw;
  }
  all.count_down();
}

}  // namespace slipstream
