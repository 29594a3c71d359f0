#include "engine/device_slab.h"

#include <ATen/ops/empty.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAStream.h>

#include <cstring>

#include "core/packed_field.h"
#include "cuda/cuda.h"
#include "engine/scalar_type.h"

namespace slipstream {
namespace {

/// Masks of bytes are declared with this number of classes if the real number is unknown.
constexpr std::int64_t kClassesOfBytes = 256;

std::int64_t known_classes(const FieldSpec& field) {
  const bool is_unknown = field.kind == FieldKind::mask && field.classes == kClassesOfBytes;
  return is_unknown ? 0 : field.classes;
}

}  // namespace

at::Tensor make_view(const at::Tensor& memory, const SlabField& field, std::size_t offset,
                     std::int64_t batch_size) {
  std::vector<std::int64_t> sizes = {batch_size};
  for (std::size_t i = 0; i < field.spec.shape.rank; ++i) sizes.push_back(field.spec.shape[i]);
  const std::size_t sample_bytes = field.spec.shape.elements() * size_bytes(field.dtype);
  const std::int64_t bytes = batch_size * static_cast<std::int64_t>(sample_bytes);
  at::Tensor view = memory.narrow(0, static_cast<std::int64_t>(offset), bytes)
                        .view(scalar_type(field.dtype))
                        .view(sizes);
  if (field.spec.kind == FieldKind::image && sizes.size() == 4) view = view.permute({0, 3, 1, 2});
  // A view would keep a reference to its base, and is_held_outside() counts references.
  return view.variable_data();
}

std::size_t count_bytes(const Fields& fields) {
  std::size_t bytes = 0;
  for (const auto& field : fields) bytes += field.second.nbytes();
  return bytes;
}

bool is_held_outside(const at::Tensor& tensor, std::span<const Fields* const> own) {
  // A storage is referenced once by each distinct tensor, and a tensor once by each entry of `own`
  // that contains it. Every further reference belongs to code outside.
  struct Counted {
    const at::Tensor* tensor;
    std::size_t own;
  };
  std::vector<Counted> all;
  const auto count = [&](const at::Tensor& other) {
    if (!other.storage().is_alias_of(tensor.storage())) return;
    for (Counted& counted : all)
      if (counted.tensor->is_same(other)) {
        ++counted.own;
        return;
      }
    all.push_back({&other, 1});
  };
  for (const Fields* fields : own)
    for (const auto& field : *fields) count(field.second);
  for (const Counted& counted : all)
    if (counted.tensor->use_count() > counted.own) return true;
  return tensor.storage().use_count() > all.size();
}

void release_tensors(Fields& fields, c10::Device device, std::span<void* const> streams,
                     std::span<const Fields* const> own) {
  if (device.is_cuda()) {
    for (auto& [name, tensor] : fields) {
      // The allocator gives a freed block to the next allocation on its stream. Without
      // record_stream, memory that outside code still uses on another stream would be overwritten.
      if (!is_held_outside(tensor, own)) continue;
      for (void* const stream : streams)
        c10::cuda::CUDACachingAllocator::recordStream(
            tensor.storage().data_ptr(),
            c10::cuda::getStreamFromExternal(static_cast<cudaStream_t>(stream), device.index()));
    }
  }
  fields.clear();
}

DeviceSlab DeviceSlab::make(const SlabLayout& layout, c10::Device device) {
  DeviceSlab slab;
  const at::Tensor memory = at::empty({static_cast<std::int64_t>(layout.device_bytes)},
                                      at::TensorOptions().dtype(at::kByte).device(device));
  for (const SlabField& field : layout.fields) {
    if (field.wire == Wire::host) continue;
    slab.fields.emplace_back(field.spec.name,
                             make_view(memory, field, field.device_offset_bytes,
                                       static_cast<std::int64_t>(layout.batch_size)));
    slab.classes.push_back(known_classes(field.spec));
  }
  return slab;
}

std::int64_t DeviceSlab::find_classes(const std::string& name, const at::Tensor& tensor) const {
  for (std::size_t i = 0; i < fields.size(); ++i)
    if (fields[i].first == name && fields[i].second.const_data_ptr() == tensor.const_data_ptr())
      return classes[i];
  return 0;
}

bool DeviceSlab::has(const at::Tensor& tensor) const {
  return !fields.empty() && tensor.storage().is_alias_of(fields.front().second.storage());
}

Batch zero_batch(const DeviceSlab& slab) {
  Batch batch;
  for (const auto& [name, tensor] : slab.fields) {
    tensor.zero_();
    batch.set(name, tensor);
  }
  return batch;
}

void copy_slab(const DeviceSlab& slab, const HostBatch& from, const SlabLayout& layout, Lane& lane,
               JpegUnpacker* jpeg) {
  // All fields share one block, and the layout's offsets count from its start, so one copy moves
  // the batch.
  auto* to = static_cast<std::byte*>(slab.fields.front().second.storage().mutable_data());
  if (auto* stream = dynamic_cast<cuda::CudaLane*>(&lane)) {
    if (layout.copied_bytes > 0)
      cuda::copy_async(to, from.data, layout.copied_bytes, stream->stream());
    if (layout.packed != nullptr) cuda::unpack_async(*layout.packed, to, stream->stream());
    if (jpeg != nullptr) jpeg->unpack_async(from.data, to, stream->stream());
  } else {
    std::memcpy(to, from.data, layout.copied_bytes);
    if (layout.packed != nullptr) unpack(*layout.packed, to);
  }
}

}  // namespace slipstream
