#pragma once

/// Marks a function that host code and device code both call.
#if defined(__CUDACC__)
#define SLIPSTREAM_HOST_DEVICE __host__ __device__
#else
#define SLIPSTREAM_HOST_DEVICE
#endif
