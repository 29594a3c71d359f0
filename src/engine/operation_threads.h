#pragma once

namespace slipstream {

/// Lets operations that the calling thread calls use `count` threads, as at::set_num_threads()
/// does. The first time on a thread it starts them at once: where PyTorch and OpenMP start them
/// later and cannot, PyTorch waits indefinitely and OpenMP ends the process. Throws Error, with
/// what to do, where the system does not start that many. Any thread may call it.
void set_operation_threads(int count);

}  // namespace slipstream
