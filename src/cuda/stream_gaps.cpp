#include "cuda/stream_gaps.h"

#include "cuda/cuda.h"
#include "cuda/teardown.h"

namespace slipstream::cuda {
namespace {

bool is_captured(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  // The call fails on the legacy default stream while another stream is captured. Nothing may be
  // recorded then either.
  if (cudaStreamIsCapturing(stream, &status) == cudaSuccess)
    return status != cudaStreamCaptureStatusNone;
  static_cast<void>(cudaGetLastError());
  return true;
}

}  // namespace

StreamGaps::StreamGaps(int device) : device_(device) {
  const DeviceGuard guard(device);
  for (Gap& gap : gaps_) {
    check_cuda(cudaEventCreate(&gap.begin));
    check_cuda(cudaEventCreate(&gap.end));
  }
}

StreamGaps::~StreamGaps() {
  for (const Gap& gap : gaps_) {
    if (gap.begin != nullptr) ignore_failure(cudaEventDestroy(gap.begin));
    if (gap.end != nullptr) ignore_failure(cudaEventDestroy(gap.end));
  }
}

void StreamGaps::begin(cudaStream_t stream) {
  const DeviceGuard guard(device_);
  is_open_ = begun_ - taken_ < kGaps && !is_captured(stream);
  if (is_open_) check_cuda(cudaEventRecord(gaps_[begun_ % kGaps].begin, stream));
}

void StreamGaps::end(cudaStream_t stream) {
  if (!is_open_) return;
  const DeviceGuard guard(device_);
  is_open_ = false;
  if (is_captured(stream)) return;
  check_cuda(cudaEventRecord(gaps_[begun_ % kGaps].end, stream));
  ++begun_;
}

double StreamGaps::take_s() {
  // Otherwise the queries would end a CUDA graph that another thread captures in the default mode.
  const RelaxedCaptureScope captures;
  double seconds = 0;
  for (; taken_ < begun_; ++taken_) {
    const Gap& gap = gaps_[taken_ % kGaps];
    const cudaError_t status = cudaEventQuery(gap.end);
    if (status == cudaErrorNotReady) {
      static_cast<void>(cudaGetLastError());
      break;
    }
    check_cuda(status);
    float milliseconds = 0;
    check_cuda(cudaEventElapsedTime(&milliseconds, gap.begin, gap.end));
    seconds += static_cast<double>(milliseconds) * 1e-3;
  }
  return seconds;
}

}  // namespace slipstream::cuda
