#include "engine/operation_threads.h"

#include <ATen/Parallel.h>

#include <mutex>

#include "core/start_thread.h"

namespace slipstream {
namespace {

/// Starts the threads of the pools, where the calling thread counts as one of `count`. OpenMP has
/// one pool for each thread that calls operations. The first call of at::set_num_threads() also
/// creates a pool for the process, so two pools are needed then.
void start_pools(int count) {
  // Locked so that no other thread uses up the threads that require_threads() just found available.
  static std::mutex starting;
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
