#include "run/measures.h"

#include <ATen/ops/zeros.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAGuard.h>
#include <sys/resource.h>

#include <algorithm>
#include <map>
#include <vector>

#include "core/fingerprint.h"
#include "cuda/cuda.h"
#include "run/steady_rate.h"

namespace slipstream {
namespace {

constexpr std::uint64_t kMostWarmUpSteps = 20;
constexpr double kFewSpared = 0.05;  ///< share of steps that batches filled ahead may feed

at::Tensor dense(const at::Tensor& tensor) {
  return tensor.is_non_overlapping_and_dense() ? tensor : tensor.contiguous();
}

/// Of tensors of one GPU.
std::vector<std::uint64_t> cuda_digests(const std::vector<at::Tensor>& tensors) {
  const c10::Device where = tensors.front().device();
  const c10::cuda::CUDAGuard device(where);
  const cuda::Stream stream(where.index());
  at::Tensor digests =
      at::zeros({static_cast<std::int64_t>(tensors.size())}, at::dtype(at::kLong).device(where));
  std::vector<at::Tensor> values;
  for (const at::Tensor& tensor : tensors) values.push_back(dense(tensor));
  // Copies and zeros are made on the current stream.
  cuda::check_cuda(cudaDeviceSynchronize());
  auto* out = reinterpret_cast<std::uint64_t*>(digests.data_ptr<std::int64_t>());
  for (const at::Tensor& each : values)
    cuda::fingerprint_async(each.const_data_ptr(), each.nbytes(), out++, stream);
  cuda::check_cuda(cudaDeviceSynchronize());
  const at::Tensor host = digests.cpu();
  const auto* words = reinterpret_cast<const std::uint64_t*>(host.const_data_ptr<std::int64_t>());
  return {words, words + tensors.size()};
}

std::vector<std::uint64_t> host_digests(const std::vector<at::Tensor>& tensors) {
  std::vector<std::uint64_t> digests;
  for (const at::Tensor& tensor : tensors) {
    const at::Tensor values = dense(tensor);
    digests.push_back(fingerprint(values.const_data_ptr(), values.nbytes()));
  }
  return digests;
}

struct OnDevice {
  std::vector<at::Tensor> tensors;
  std::vector<std::size_t> places;
};

/// The first step that counts for the rate.
std::size_t first_rated(const RunResult& result, const std::optional<Cut>& cut,
                        std::size_t batch_size) {
  const std::size_t steps = result.step_end_s.size();
  const auto warm = std::max<std::size_t>(1, warm_up_steps(steps));
  if (!fills_batches(result, cut)) return warm;
  const double spared =
      spared_steps(result.inputs, result.step_end_s, warm, half_made(result, batch_size));
  if (spared <= kFewSpared * static_cast<double>(steps - warm)) return warm;
  const std::size_t steady =
      first_steady_step(result.inputs, result.step_end_s, result.lanes.size());
  return steady <= warm + (steps - warm) / 2 ? std::max(warm, steady) : warm;
}

}  // namespace

std::uint64_t warm_up_steps(std::uint64_t steps) { return std::min(kMostWarmUpSteps, steps / 4); }

Measured step_rate(const RunResult& result, const std::optional<Cut>& cut, std::size_t batch_size) {
  if (result.step_end_s.size() < 2) return {0, 0, 0, "steps/s", 0};
  SteadyRate rate(cut);
  rate.add_from(first_rated(result, cut, batch_size), result, batch_size);
  return rate.rate();
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
  std::map<c10::DeviceIndex, OnDevice> devices;  // the host's is -1
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const bool is_cuda = tensors[i].is_cuda();
    OnDevice& on = devices[is_cuda ? tensors[i].device().index() : c10::DeviceIndex{-1}];
    on.tensors.push_back(tensors[i]);
    on.places.push_back(i);
  }
  std::vector<std::uint64_t> words(tensors.size());
  for (const auto& [index, on] : devices) {
    const auto digests = index < 0 ? host_digests(on.tensors) : cuda_digests(on.tensors);
    for (std::size_t i = 0; i < digests.size(); ++i) words[on.places[i]] = digests[i];
  }
  std::uint64_t digest = 0;
  for (const std::uint64_t word : words) digest = chain64(digest, word);
  return digest;
}

}  // namespace slipstream
