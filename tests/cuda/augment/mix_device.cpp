#include <gtest/gtest.h>

#include "cuda/augment/mix_executor.h"
#include "cuda/augment/mix_kernel.h"
#include "cuda/device_buffer.h"
#include "gpu.h"

namespace slipstream::test {
namespace {

using Bytes = std::vector<std::byte>;

constexpr std::size_t kGuard = 512;  // bytes after the output, which must stay unchanged

Bytes bytes_at(const void* memory, std::size_t bytes) {
  const auto* first = static_cast<const std::byte*>(memory);
  return memory == nullptr ? Bytes{} : Bytes(first, first + bytes);
}

void copy_to_host(const DeviceBuffer<std::byte>& from, void* to, std::size_t bytes) {
  const Bytes all = from.read();
  if (to != nullptr) std::copy_n(all.begin(), bytes, static_cast<std::byte*>(to));
  for (std::size_t i = bytes; i < all.size(); ++i)
    ASSERT_EQ(all[i], std::byte{0xa5}) << "written beyond the end of the batch";
}

}  // namespace

void mix_on_tested_device(const MixForm& form, const MixBatch& batch) {
  const auto size = static_cast<std::size_t>(batch.size);
  const std::size_t values = size * static_cast<std::size_t>(form.elements());
  const std::size_t in_bytes = values * size_bytes(form.dtype);
  const std::size_t out_bytes = batch.mixed == nullptr ? 0 : form.bf16 ? in_bytes / 2 : in_bytes;
  const std::size_t target_bytes = size * static_cast<std::size_t>(form.classes) * sizeof(float);
  const DeviceBuffer<std::byte> images(bytes_at(batch.images, in_bytes));
  const DeviceBuffer<std::byte> drawn(bytes_at(batch.drawn, size * sizeof(DrawnMix)));
  const DeviceBuffer<std::byte> labels(bytes_at(batch.labels, size * size_bytes(form.label)));
  const DeviceBuffer<std::byte> mixed(out_bytes + kGuard, 0xa5);
  const DeviceBuffer<std::byte> targets(target_bytes + kGuard, 0xa5);
  const cuda::Stream stream(0);
  const MixBatch there{
      .size = batch.size,
      .drawn = batch.drawn ? reinterpret_cast<const DrawnMix*>(drawn.get()) : nullptr,
      .images = images.get(),
      .mixed = mixed.get(),
      .labels = labels.get(),
      .targets = reinterpret_cast<float*>(targets.get())};
  cuda::mix_async(form, there, stream);
  stream.synchronize();
  copy_to_host(mixed, batch.mixed, out_bytes);
  copy_to_host(targets, batch.targets, target_bytes);
}

void require_mixer() { require_gpu(); }

}  // namespace slipstream::test
