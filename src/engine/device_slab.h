#pragma once

#include <ATen/core/Tensor.h>

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engine/jpeg_unpacker.h"
#include "slipstream/core/lane.h"
#include "slipstream/engine/batch.h"
#include "slipstream/loader/data_loader.h"

namespace slipstream {

using Fields = std::vector<std::pair<std::string, at::Tensor>>;

std::size_t count_bytes(const Fields& fields);

/// Returns true if any code outside `own`, which contains `tensor`, references the memory of
/// `tensor`.
bool is_held_outside(const at::Tensor& tensor, std::span<const Fields* const> own);

/// Releases the tensors of one batch whose slot is free again. If code outside `own` still
/// references a storage, record_stream is called for it with all `streams`, because that code may
/// use it on any of them. Needed only on CUDA; on a CPU this only clears `fields`.
void release_tensors(Fields& fields, c10::Device device, std::span<void* const> streams,
                     std::span<const Fields* const> own);

/// Returns the tensor of a field that starts `offset` bytes into `memory`, a tensor of bytes, for
/// all samples of a batch. Images are batch x channels x height x width, channels-last. The
/// returned tensor references only the storage, not the tensor `memory`.
at::Tensor make_view(const at::Tensor& memory, const SlabField& field, std::size_t offset,
                     std::int64_t batch_size);

/// The fields of one batch in one block of device memory.
struct DeviceSlab {
  Fields fields;  ///< tensors in the block, which reference only its storage
  std::vector<std::int64_t> classes = {};   ///< number of classes of each field
  std::vector<std::size_t> stand_ins = {};  ///< Batch::stand_ins() of the batch in the slab

  /// Makes a slab in new memory from the allocator, on the current stream.
  static DeviceSlab make(const SlabLayout& layout, c10::Device device);
  bool has(const at::Tensor& tensor) const;
  /// Returns the value of Batch::classes() for a tensor of that name: 0 unless it is the slab's own
  /// tensor.
  std::int64_t find_classes(const std::string& name, const at::Tensor& tensor) const;
};

/// Returns a batch of the slab's fields, all zeros, enqueued on the current stream.
Batch zero_batch(const DeviceSlab& slab);

/// Copies a host batch into `slab` and expands the fields that traveled packed or, with `jpeg`, as
/// files (`jpeg` is nullptr if there are none). The work is enqueued on `lane`; on a host lane it
/// has finished on return.
void copy_slab(const DeviceSlab& slab, const HostBatch& from, const SlabLayout& layout, Lane& lane,
               JpegUnpacker* jpeg);

}  // namespace slipstream
