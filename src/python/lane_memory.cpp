#include "python/lane_memory.h"

#include <c10/cuda/CUDACachingAllocator.h>

#include <algorithm>

namespace slipstream {
namespace {

LaneMemory::Piece piece_of(const at::Tensor& tensor) {
  LaneMemory::Piece piece{tensor.storage(), nullptr, nullptr, version_of(tensor)};
  if (tensor.numel() == 0 || tensor.storage().data() == nullptr) return piece;
  if (tensor.is_nested()) {  // without strides
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

std::uint32_t version_of(const at::Tensor& tensor) {
  return tensor.is_inference() ? 0 : static_cast<std::uint32_t>(tensor._version());
}

void LaneMemory::keep(const at::Tensor& tensor) {
  if (!tensor.has_storage()) {
    batches_.back().without_storage.push_back(tensor);
    return;
  }
  batches_.back().pieces.push_back(piece_of(tensor));
}

void LaneMemory::keep(pybind11::handle object) {
  batches_.back().opaque.push_back(pybind11::reinterpret_borrow<pybind11::object>(object));
}

bool LaneMemory::has(const c10::Storage& storage) const {
  return std::any_of(batches_.begin(), batches_.end(),
                     [&](const Made& made) { return is_in(made.pieces, storage); });
}

bool LaneMemory::newest_has(const c10::Storage& storage) const {
  return is_in(batches_.back().pieces, storage);
}

const LaneMemory::Piece* LaneMemory::elsewhere(const at::Tensor& tensor) const {
  const Piece sought = piece_of(tensor);
  for (auto made = batches_.begin(); made + 1 < batches_.end(); ++made)
    for (const Piece& piece : made->pieces)
      if (sought.begin < piece.end && piece.begin < sought.end) return &piece;
  return nullptr;
}

void LaneMemory::hand_to_holders(std::optional<std::uint64_t> batch,
                                 const c10::cuda::CUDAStream& stream) {
  for (const Made& made : batches_) {
    if (batch && made.batch != *batch) continue;
    for (const Piece& piece : made.pieces)
      if (piece.storage.use_count() > 1 && piece.storage.device().is_cuda())
        c10::cuda::CUDACachingAllocator::recordStream(piece.storage.data_ptr(), stream);
  }
}

std::vector<LaneMemory::Made> LaneMemory::take(std::uint64_t last) {
  std::vector<Made> taken;
  while (!batches_.empty() && batches_.front().batch <= last) {
    taken.push_back(std::move(batches_.front()));
    batches_.pop_front();
  }
  return taken;
}

}  // namespace slipstream
