#pragma once

#include <c10/core/Storage.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/utils/pybind.h>

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

namespace slipstream {

/// PyTorch's version counter of the tensor, which counts writes; 0 if the tensor has none.
std::uint32_t tensor_version(const at::Tensor& tensor);

/// A digest of the elements of a tensor in host memory. For large tensors, of a part of them.
class TensorContent {
 public:
  /// REQUIRES: `tensor` is strided, in host memory and not empty
  explicit TensorContent(const at::Tensor& tensor);
  /// Whether the elements that begin at `data` are unchanged. REQUIRES: the memory still exists
  bool is_still_at(const char* data) const { return compute_digest(data) == digest_; }
  bool is_sample() const { return is_sample_; }

 private:
  std::uint64_t compute_digest(const char* data) const;

  std::vector<std::int64_t> sizes_, strides_;
  std::size_t element_bytes_, elements_;
  bool is_dense_, is_sample_;
  std::uint64_t digest_;
};

/// The results of a lane for the batches of a loop. They are kept until the lane's stream has
/// waited for their last use, because PyTorch's allocator reuses freed memory at once on the stream
/// that allocated it. If the caller keeps a tensor longer, hand_to_holders() delays the reuse.
/// Needs the GIL if it contains objects that are not tensors.
class LaneMemory {
 public:
  struct Piece {
    c10::Storage storage;
    const char *begin = nullptr, *end = nullptr;  ///< range of the tensor's elements
    std::uint32_t version = 0;                    ///< version counter after the tensor was created
    std::optional<TensorContent> content;         ///< digest at that time; empty: not computed
  };
  /// The results for one batch.
  struct BatchMemory {
    std::uint64_t batch;
    std::vector<Piece> pieces;
    std::vector<at::Tensor> without_storage;
    std::vector<pybind11::object> opaque;
  };

  /// Begins a new batch. Batches are added in order.
  void add(std::uint64_t batch) {
    ++added_;
    batches_.push_back({batch, {}, {}, {}});
  }
  void keep(const at::Tensor& tensor);
  /// Keeps an object whose tensors cannot be found.
  void keep(pybind11::handle object);
  bool has(const c10::Storage& storage) const;
  bool newest_has(const c10::Storage& storage) const;
  /// Whether a tensor of an earlier batch shares memory with `tensor` and has been overwritten
  /// since it was created. In host memory, contents are compared. Comparing device memory would
  /// need a synchronization, so PyTorch's version counter decides for tensors of the same storage.
  /// If `is_strict`, all shared memory counts as overwritten.
  bool is_overwritten_by(const at::Tensor& tensor, bool is_strict);

  /// Prepares memory of `batch`, or of all batches if empty, that the caller still references: it
  /// is reused only after the work that `stream` has at the time when it is freed.
  void hand_to_holders(std::optional<std::uint64_t> batch, const c10::cuda::CUDAStream& stream);
  /// Removes and returns the results for batches up to `last`, so that the caller can free them.
  std::vector<BatchMemory> take(std::uint64_t last);

 private:
  bool looks_at_content() const { return shares_ || added_ <= kFirstBatches; }

  static constexpr std::uint64_t kFirstBatches = 4;
  std::deque<BatchMemory> batches_;
  std::uint64_t added_ = 0;
  bool shares_ = false;  ///< whether any two batches have shared memory
};

}  // namespace slipstream
