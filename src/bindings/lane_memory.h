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
std::uint32_t tensor_version(const at::Tensor& tensor);

/// The elements of a tensor in host memory: of large ones a sample.
class TensorContent {
 public:
  /// REQUIRES: strided, in host memory, not empty
  explicit TensorContent(const at::Tensor& tensor);
  /// Whether the elements that begin at `data` are the same. The memory has to be there still.
  bool is_still_at(const char* data) const { return compute_digest(data) == digest_; }
  bool is_sample() const { return is_sample_; }

 private:
  std::uint64_t compute_digest(const char* data) const;

  std::vector<std::int64_t> sizes_, strides_;
  std::size_t element_bytes_, elements_;
  bool is_dense_, is_sample_;
  std::uint64_t digest_;
};

/// What a lane has made for the batches of a loop, kept until the lane's work is behind its last
/// use. Memory is the lane's: it goes back to the lane's stream, unless somebody keeps it longer.
/// Needs Python's lock where it holds objects that are no tensors.
class LaneMemory {
 public:
  struct Piece {
    c10::Storage storage;
    const char *begin = nullptr, *end = nullptr;  ///< of the tensor's elements
    std::uint32_t version = 0;                    ///< of the tensor, as it was made
    std::optional<TensorContent> content;         ///< as it was made, where it was looked at
  };
  /// What was made for a batch.
  struct BatchMemory {
    std::uint64_t batch;
    std::vector<Piece> pieces;
    std::vector<at::Tensor> without_storage;
    std::vector<pybind11::object> opaque;
  };

  /// For the batches that come in order.
  void add(std::uint64_t batch) {
    ++added_;
    batches_.push_back({batch, {}, {}, {}});
  }
  void keep(const at::Tensor& tensor);
  /// What cannot be looked into, kept whole.
  void keep(pybind11::handle object);
  bool has(const c10::Storage& storage) const;
  bool newest_has(const c10::Storage& storage) const;
  /// Whether a tensor of a batch before the newest shares memory with `tensor` and has been
  /// overwritten since it was made. In host memory contents are compared. A device's cannot be
  /// without waiting for it: there PyTorch's count of writes decides for tensors of one storage,
  /// and with `is_strict` all memory that is shared counts as overwritten.
  bool is_overwritten_by(const at::Tensor& tensor, bool is_strict);

  /// Whoever still holds memory of `batch`, or of any without one, keeps it on: it goes back behind
  /// the work that `stream` has then.
  void hand_to_holders(std::optional<std::uint64_t> batch, const c10::cuda::CUDAStream& stream);
  /// Takes what it has for batches up to `last`, to be let go of.
  std::vector<BatchMemory> take(std::uint64_t last);

 private:
  bool looks_at_content() const { return shares_ || added_ <= kFirstBatches; }

  static constexpr std::uint64_t kFirstBatches = 4;
  std::deque<BatchMemory> batches_;
  std::uint64_t added_ = 0;
  bool shares_ = false;  ///< whether two batches shared memory so far
};

}  // namespace slipstream
