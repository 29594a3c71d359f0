#include "engine/digest.h"

#include <ATen/ops/zeros.h>
#include <c10/cuda/CUDAGuard.h>

#include <array>
#include <map>
#include <set>

#include "core/fingerprint.h"
#include "cuda/cuda.h"

namespace slipstream {
namespace {

at::Tensor dense(const at::Tensor& tensor) {
  return tensor.is_non_overlapping_and_dense() ? tensor : tensor.contiguous();
}

/// Computes the digests of tensors on one GPU.
std::vector<std::uint64_t> cuda_digests(const std::vector<at::Tensor>& tensors) {
  const c10::Device where = tensors.front().device();
  const c10::cuda::CUDAGuard device(where);
  // A separate stream, because the current one may be the default stream, on which the library runs
  // no kernels.
  const cuda::Stream stream(where.index());
  at::Tensor digests =
      at::zeros({static_cast<std::int64_t>(tensors.size())}, at::dtype(at::kLong).device(where));
  std::vector<at::Tensor> values;
  for (const at::Tensor& tensor : tensors) values.push_back(dense(tensor));
  // The zeros and the dense copies were enqueued on the current stream, but the kernels below run
  // on another one.
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

std::vector<std::uint64_t> compute_digests(std::span<const Fields> batches) {
  std::vector<std::uint64_t> digests;
  for (const Fields& fields : batches)
    for (const auto& [name, tensor] : fields) digests.push_back(compute_digest(std::array{tensor}));
  return digests;
}

}  // namespace

std::uint64_t compute_digest(std::span<const at::Tensor> tensors) {
  std::map<c10::DeviceIndex, OnDevice> devices;  // key -1 is the host
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
  // The digests are combined in the order of the tensors, not of the devices, so the result does
  // not depend on where a tensor is.
  std::uint64_t digest = 0;
  for (const std::uint64_t word : words) digest = chain64(digest, word);
  return digest;
}

FieldDigests::FieldDigests(std::span<const Fields> batches) : digests_(compute_digests(batches)) {}

std::vector<std::string> FieldDigests::changed_in(std::span<const Fields> batches) const {
  std::set<std::string> changed;
  const std::vector<std::uint64_t> now = compute_digests(batches);
  std::size_t i = 0;
  for (const Fields& fields : batches)
    for (const auto& [name, tensor] : fields) {
      if (now[i] != digests_[i]) changed.insert(name);
      ++i;
    }
  return {changed.begin(), changed.end()};
}

}  // namespace slipstream
