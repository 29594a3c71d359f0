#include "run/measures.h"

#include <ATen/ops/zeros.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAGuard.h>
#include <sys/resource.h>

#include <algorithm>
#include <vector>

#include "slipstream/cuda.h"
#include "slipstream/fingerprint.h"

namespace slipstream {
namespace {

constexpr std::uint64_t kMostWarmUpSteps = 20;

at::Tensor dense(const at::Tensor& tensor) {
  return tensor.is_non_overlapping_and_dense() ? tensor : tensor.contiguous();
}

std::vector<std::uint64_t> cuda_digests(std::span<const at::Tensor> tensors) {
  const c10::cuda::CUDAGuard device(tensors.front().device());
  const cuda::Stream stream(tensors.front().device().index());
  at::Tensor digests = at::zeros({static_cast<std::int64_t>(tensors.size())},
                                 tensors.front().options().dtype(at::kLong));
  cuda::check_cuda(cudaDeviceSynchronize());
  auto* out = reinterpret_cast<std::uint64_t*>(digests.data_ptr<std::int64_t>());
  std::vector<at::Tensor> kept;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    kept.push_back(dense(tensors[i]));
    cuda::fingerprint_async(kept.back().const_data_ptr(), kept.back().nbytes(), out + i, stream);
  }
  cuda::check_cuda(cudaDeviceSynchronize());
  const at::Tensor host = digests.cpu();
  const auto* words = reinterpret_cast<const std::uint64_t*>(host.const_data_ptr<std::int64_t>());
  return {words, words + tensors.size()};
}

}  // namespace

std::uint64_t warm_up_steps(std::uint64_t steps) { return std::min(kMostWarmUpSteps, steps / 4); }

Measured step_rate(std::span<const double> step_end_s) {
  if (step_end_s.size() < 2) return {0, 0, 0, "steps/s", 0};
  const auto first = std::max<std::size_t>(1, warm_up_steps(step_end_s.size()));
  std::vector<double> durations;
  for (std::size_t i = first; i < step_end_s.size(); ++i)
    durations.push_back(step_end_s[i] - step_end_s[i - 1]);
  return rate_from_durations(durations, "steps/s");
}

double input_wait_share(double blocked_s, double busy_s, double elapsed_s) {
  if (elapsed_s <= 0) return 0;
  return std::clamp(std::min(blocked_s, elapsed_s - busy_s) / elapsed_s, 0.0, 1.0);
}

std::size_t reserved_bytes(c10::Device device) {
  if (!device.is_cuda()) return 0;
  const auto stats = c10::cuda::CUDACachingAllocator::getDeviceStats(device.index());
  return static_cast<std::size_t>(stats.reserved_bytes[0].current);
}

std::size_t peak_bytes(c10::Device device) {
  if (device.is_cuda()) {
    const auto stats = c10::cuda::CUDACachingAllocator::getDeviceStats(device.index());
    return static_cast<std::size_t>(stats.allocated_bytes[0].peak);
  }
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<std::size_t>(usage.ru_maxrss) * 1024;
}

void reset_peak(c10::Device device) {
  if (device.is_cuda()) c10::cuda::CUDACachingAllocator::resetPeakStats(device.index());
}

std::uint64_t digest_of(std::span<const at::Tensor> tensors) {
  std::uint64_t digest = 0;
  if (!tensors.empty() && tensors.front().is_cuda()) {
    for (std::uint64_t word : cuda_digests(tensors)) digest = chain64(digest, word);
    return digest;
  }
  for (const at::Tensor& tensor : tensors) {
    const at::Tensor values = dense(tensor);
    digest = chain64(digest, fingerprint(values.const_data_ptr(), values.nbytes()));
  }
  return digest;
}

}  // namespace slipstream
