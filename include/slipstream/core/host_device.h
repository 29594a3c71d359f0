#pragma once

/// Marks a function that both host code and device code can call.
#if defined(__CUDACC__)
#define SLIPSTREAM_HOST_DEVICE __host__ __device__
#else
#define SLIPSTREAM_HOST_DEVICE
#endif
