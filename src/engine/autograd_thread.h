#pragma once

#include <c10/core/Device.h>

namespace slipstream {

/// Makes the primary context of `device`, a GPU, current on the calling thread. PyTorch calls
/// cudaSetDevice only if the device changes. A new thread that uses the first GPU therefore has no
/// context, and cuBLAS prints a warning. Repeated calls are cheap.
void bind_this_thread(c10::Device device);

/// Calls bind_this_thread() on the thread where PyTorch runs backward() for `device`, and waits for
/// it.
void bind_autograd_thread(c10::Device device);

}  // namespace slipstream
