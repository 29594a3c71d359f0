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

/// Whether anybody but `own`, which `tensor` is part of, holds its memory.
bool is_held_outside(const at::Tensor& tensor, std::span<const Fields* const> own);

/// Tensors of one batch whose slot is free again: gives each storage that somebody outside `own`
/// still holds up to its holder, whose work may be on any of `streams`, and lets the rest go. CUDA
/// alone needs this.
void release_tensors(Fields& fields, c10::Device device, std::span<void* const> streams,
                     std::span<const Fields* const> own);

/// The field that lies `offset` bytes into `memory`, which are bytes, for all samples of a batch;
/// images become batch x channels x height x width (channels-last). It holds nothing but its
/// memory.
at::Tensor make_view(const at::Tensor& memory, const SlabField& field, std::size_t offset,
                     std::int64_t batch_size);

/// The fields of one batch in one block of device memory.
struct DeviceSlab {
  Fields fields;                            ///< views of the block, which hold nothing else
  std::vector<std::int64_t> classes = {};   ///< of each field
  std::vector<std::size_t> stand_ins = {};  ///< Batch::stand_ins() of the batch in it

  /// Fresh memory from the allocator on the current stream.
  static DeviceSlab make(const SlabLayout& layout, c10::Device device);
  bool has(const at::Tensor& tensor) const;
  /// Batch::classes() of a tensor with that name: 0 where it is another than the slab's.
  std::int64_t find_classes(const std::string& name, const at::Tensor& tensor) const;
};

/// A batch of the slab's fields, all zeros, enqueued on the current stream.
Batch zero_batch(const DeviceSlab& slab);

/// Copies a host batch into `slab` and expands what traveled packed or, by `jpeg`, as files
/// (nullptr where nothing does), enqueued on `lane` (done at once on a host lane).
void copy_slab(const DeviceSlab& slab, const HostBatch& from, const SlabLayout& layout, Lane& lane,
               JpegUnpacker* jpeg);

}  // namespace slipstream
