#pragma once

#include <c10/core/Storage.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/utils/pybind.h>

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

namespace slipstream {

/// How often PyTorch has seen a tensor's memory written; 0 where it does not count.
std::uint32_t version_of(const at::Tensor& tensor);

/// What a lane has made for the batches of a loop, kept until the lane's work is behind its last
/// use. Memory is the lane's: it goes back to the lane's stream, unless somebody keeps it longer.
/// Needs Python's lock where it holds objects that are no tensors.
class LaneMemory {
 public:
  struct Piece {
    c10::Storage storage;
    const char *begin = nullptr, *end = nullptr;  ///< of the tensor's elements
    std::uint32_t version = 0;                    ///< of the tensor, as it was made
  };
  /// What was made for a batch.
  struct Made {
    std::uint64_t batch;
    std::vector<Piece> pieces;
    std::vector<at::Tensor> without_storage;
    std::vector<pybind11::object> opaque;
  };

  /// For the batches that come in order.
  void add(std::uint64_t batch) { batches_.push_back({batch, {}, {}, {}}); }
  void keep(const at::Tensor& tensor);
  /// What cannot be looked into, kept whole.
  void keep(pybind11::handle object);
  bool has(const c10::Storage& storage) const;
  bool newest_has(const c10::Storage& storage) const;
  /// The piece of another batch than the newest that shares memory with `tensor`; nullptr: none.
  const Piece* elsewhere(const at::Tensor& tensor) const;

  /// Whoever still holds memory of `batch`, or of any without one, keeps it on: it goes back behind
  /// the work that `stream` has then.
  void hand_to_holders(std::optional<std::uint64_t> batch, const c10::cuda::CUDAStream& stream);
  /// Takes what it has for batches up to `last`, to be let go of.
  std::vector<Made> take(std::uint64_t last);

 private:
  std::deque<Made> batches_;
};

}  // namespace slipstream
