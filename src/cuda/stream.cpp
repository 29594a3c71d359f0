#include <algorithm>
#include <stdexcept>

#include "cuda/cuda.h"
#include "cuda/teardown.h"

namespace slipstream::cuda {

StreamView::StreamView(cudaStream_t stream) : stream_(stream) {
  if (stream == nullptr || stream == cudaStreamLegacy || stream == cudaStreamPerThread) {
    throw std::logic_error(
        "a StreamView was created from a default stream; create a separate stream");
  }
}

Stream::Stream(int device, int priority) : device_(device) {
  const DeviceGuard guard(device);
  int lowest = 0;
  int highest = 0;
  check_cuda(cudaDeviceGetStreamPriorityRange(&lowest, &highest));
  // In CUDA, a numerically lower priority has precedence.
  const int chosen = lowest - std::clamp(priority, 0, lowest - highest);
  // Non-blocking: it does not synchronize with the default stream.
  check_cuda(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, chosen));
}

Stream::~Stream() { ignore_failure(cudaStreamDestroy(stream_)); }

void Stream::synchronize() const { check_cuda(cudaStreamSynchronize(stream_)); }

void copy_async(void* to, const void* from, std::size_t bytes, StreamView stream) {
  if (bytes == 0) return;
  check_cuda(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream.get()));
}

}  // namespace slipstream::cuda
