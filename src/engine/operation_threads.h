#pragma once

namespace slipstream {

/// Sets the number of threads that operations called by this thread use, as at::set_num_threads()
/// does. The first call on a thread starts them at once. If PyTorch or OpenMP started them later
/// and failed, PyTorch would wait indefinitely and OpenMP would terminate the process. Throws
/// Error, with the remedy, if the system cannot start that many threads. May be called from any
/// thread.
void set_operation_threads(int count);

}  // namespace slipstream
