#include "bindings/lane_memory.h"

#include <c10/cuda/CUDACachingAllocator.h>

#include <algorithm>

#include "core/fingerprint.h"

namespace slipstream {
namespace {

constexpr std::size_t kWholeBytes = 1 << 16;  ///< tensors up to this size are compared entirely
constexpr std::size_t kSamples = 1024;        ///< compared elements or pieces of larger tensors
constexpr std::size_t kSampleBytes = 64;

LaneMemory::Piece make_piece(const at::Tensor& tensor) {
  LaneMemory::Piece piece{tensor.storage(), nullptr, nullptr, tensor_version(tensor), {}};
  if (tensor.numel() == 0 || tensor.storage().data() == nullptr) return piece;
  if (tensor.is_nested()) {  // has no strides
    piece.begin = static_cast<const char*>(tensor.storage().data());
    piece.end = piece.begin + tensor.storage().nbytes();
    return piece;
  }
  std::int64_t elements = 1;
  for (std::int64_t i = 0; i < tensor.dim(); ++i)
    elements += (tensor.size(i) - 1) * tensor.stride(i);
  const auto size = static_cast<std::int64_t>(tensor.element_size());
  piece.begin = static_cast<const char*>(tensor.storage().data()) + tensor.storage_offset() * size;
  piece.end = piece.begin + elements * size;
  return piece;
}

bool is_in(const std::vector<LaneMemory::Piece>& pieces, const c10::Storage& storage) {
  return std::any_of(pieces.begin(), pieces.end(), [&](const LaneMemory::Piece& piece) {
    return piece.storage.is_alias_of(storage);
  });
}

}  // namespace

TensorContent::TensorContent(const at::Tensor& tensor)
    : sizes_(tensor.sizes().vec()),
      strides_(tensor.strides().vec()),
      element_bytes_(tensor.element_size()),
      elements_(static_cast<std::size_t>(tensor.numel())),
      is_dense_(tensor.is_contiguous()),
      is_sample_(is_dense_ ? elements_ * element_bytes_ > kWholeBytes : elements_ > kSamples),
      digest_(compute_digest(static_cast<const char*>(tensor.const_data_ptr()))) {}

std::uint64_t TensorContent::compute_digest(const char* data) const {
  const std::size_t bytes = elements_ * element_bytes_;
  if (is_dense_ && !is_sample_) return fingerprint(data, bytes);
  std::vector<std::uint64_t> digests;
  const std::size_t step = std::max<std::size_t>(1, (is_dense_ ? bytes : elements_) / kSamples);
  if (is_dense_) {
    for (std::size_t at = 0; at + kSampleBytes <= bytes; at += step)
      digests.push_back(fingerprint(data + at, kSampleBytes));
  } else {
    for (std::size_t element = 0; element < elements_; element += step) {
      std::int64_t offset = 0;
      auto rest = static_cast<std::int64_t>(element);
      for (std::size_t dim = sizes_.size(); dim-- > 0; rest /= sizes_[dim])
        offset += rest % sizes_[dim] * strides_[dim];
      const auto size = static_cast<std::int64_t>(element_bytes_);
      digests.push_back(fingerprint(data + offset * size, element_bytes_));
    }
  }
  return fingerprint(digests.data(), digests.size() * sizeof(std::uint64_t));
}

std::uint32_t tensor_version(const at::Tensor& tensor) {
  return tensor.is_inference() ? 0 : static_cast<std::uint32_t>(tensor._version());
}

void LaneMemory::keep(const at::Tensor& tensor) {
  if (!tensor.has_storage()) {
    batches_.back().without_storage.push_back(tensor);
    return;
  }
  Piece& piece = batches_.back().pieces.emplace_back(make_piece(tensor));
  if (looks_at_content() && piece.begin != nullptr && tensor.is_cpu() && !tensor.is_nested())
    piece.content.emplace(tensor);
}

void LaneMemory::keep(pybind11::handle object) {
  batches_.back().opaque.push_back(pybind11::reinterpret_borrow<pybind11::object>(object));
}

bool LaneMemory::has(const c10::Storage& storage) const {
  return std::any_of(batches_.begin(), batches_.end(),
                     [&](const BatchMemory& made) { return is_in(made.pieces, storage); });
}

bool LaneMemory::newest_has(const c10::Storage& storage) const {
  return is_in(batches_.back().pieces, storage);
}

bool LaneMemory::is_overwritten_by(const at::Tensor& tensor, bool is_strict) {
  const Piece now = make_piece(tensor);
  const auto is_overwritten = [&](const Piece& piece) {
    if (now.begin >= piece.end || piece.begin >= now.end) return false;
    shares_ = true;
    const bool is_alias = piece.storage.is_alias_of(now.storage);
    const bool is_written = is_alias && piece.version != now.version;
    if (piece.content)
      // The digest of a sample can miss a write, which the version counter then shows.
      return !piece.content->is_still_at(piece.begin) || (is_written && piece.content->is_sample());
    // The contents of this tensor were not recorded. A write is found by the version counter now,
    // or by the recorded contents of the next batch.
    if (tensor.is_cpu()) return is_written;
    // Two storages over the same memory have separate version counters, so a write cannot be
    // excluded.
    return is_strict || is_written || !is_alias;
  };
  for (auto made = batches_.begin(); made + 1 < batches_.end(); ++made)
    if (std::any_of(made->pieces.begin(), made->pieces.end(), is_overwritten)) return true;
  return false;
}

void LaneMemory::hand_to_holders(std::optional<std::uint64_t> batch,
                                 const c10::cuda::CUDAStream& stream) {
  for (const BatchMemory& made : batches_) {
    if (batch && made.batch != *batch) continue;
    for (const Piece& piece : made.pieces)
      // One reference is that of `piece`. Any other belongs to a tensor that the caller still has.
      if (piece.storage.use_count() > 1 && piece.storage.device().is_cuda())
        c10::cuda::CUDACachingAllocator::recordStream(piece.storage.data_ptr(), stream);
  }
}

std::vector<LaneMemory::BatchMemory> LaneMemory::take(std::uint64_t last) {
  std::vector<BatchMemory> taken;
  while (!batches_.empty() && batches_.front().batch <= last) {
    taken.push_back(std::move(batches_.front()));
    batches_.pop_front();
  }
  return taken;
}

}  // namespace slipstream
