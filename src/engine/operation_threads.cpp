#include "engine/operation_threads.h"

#include <ATen/Parallel.h>

#include <mutex>

#include "core/start_thread.h"

namespace slipstream {
namespace {

/// The calling thread is one of `count`. OpenMP has a pool for each thread that calls operations,
/// and the first call of at::set_num_threads() makes another one, for the process.
void start_pools(int count) {
  static std::mutex starting;  // so that no other thread takes what was tried out
  static std::size_t pools = 2;
  const std::lock_guard lock(starting);
  require_threads(pools * static_cast<std::size_t>(count - 1));
  at::set_num_threads(count);
  at::parallel_for(0, count, 1, [](std::int64_t, std::int64_t) {});
  pools = 1;
}

}  // namespace

void set_operation_threads(int count) {
  thread_local int started = 1;
  if (count <= started) {
    at::set_num_threads(count);
    return;
  }
  start_pools(count);
  started = count;
}

}  // namespace slipstream
