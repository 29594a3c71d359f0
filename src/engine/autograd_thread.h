#pragma once

#include <c10/core/Device.h>

namespace slipstream {

/// Makes the primary context of `device`, a GPU, current on the calling thread. PyTorch sets a
/// thread's device only where that changes it, so a new thread on the first GPU has none, and
/// cuBLAS warns. Cheap where it was done before.
void bind_this_thread(c10::Device device);

/// Does so on the thread where PyTorch runs backward() for `device`. Waits for it.
void bind_autograd_thread(c10::Device device);

}  // namespace slipstream
