#include "core/half.h"
#include "cuda/augment/mix_kernel.h"
#include "slipstream/core/error.h"

namespace slipstream::cuda {
namespace {

constexpr unsigned kThreads = 256;

struct Job {
  MixForm form;
  MixBatch batch;
  std::uint32_t elements;         ///< elements of an image
  std::uint32_t row;              ///< contiguous elements of an image row
  std::uint32_t inner;            ///< elements per column of a row
  std::uint32_t blocks_of_image;  ///< 0 without images
  std::uint64_t image_blocks;
};

template <typename T, int kCount>
struct alignas(sizeof(T) * kCount) Values {
  T value[kCount];
};

__device__ void store(float& to, float value) { to = value; }
__device__ void store(std::uint16_t& to, float value) { to = to_bf16(value); }
__device__ void store(std::uint8_t& to, std::uint8_t value) { to = value; }

/// Returns as bits which of the kCount elements starting at `first` are in the box.
template <int kCount>
__device__ std::uint32_t in_box(const Job& job, const DrawnMix& drawn, std::uint32_t first) {
  std::uint32_t row = first / job.row;
  std::uint32_t column = first - row * job.row;
  std::uint32_t y = row % static_cast<std::uint32_t>(job.form.height);
  const std::uint32_t left = static_cast<std::uint32_t>(drawn.left) * job.inner;
  const std::uint32_t right = static_cast<std::uint32_t>(drawn.right) * job.inner;
  std::uint32_t bits = 0;
#pragma unroll
  for (int k = 0; k < kCount; ++k) {
    const bool is_row =
        y >= static_cast<std::uint32_t>(drawn.top) && y < static_cast<std::uint32_t>(drawn.bottom);
    if (is_row && column >= left && column < right) bits |= 1U << k;
    if (++column < job.row) continue;
    column = 0;
    if (++y == static_cast<std::uint32_t>(job.form.height)) y = 0;
  }
  return bits;
}

/// Mixes kCount elements of image blockIdx.x / blocks_of_image. kCount divides the number of
/// elements of an image.
template <typename In, typename Out, int kCount>
__device__ void mix_values(const Job& job) {
  const std::uint32_t sample = blockIdx.x / job.blocks_of_image;
  const std::uint32_t first =
      ((blockIdx.x - sample * job.blocks_of_image) * kThreads + threadIdx.x) * kCount;
  if (first >= job.elements) return;
  const DrawnMix drawn = job.batch.drawn[sample];
  const std::int64_t partner = mix_partner(sample, job.batch.size);
  const auto* images = static_cast<const In*>(job.batch.images);
  const auto load = [&](std::int64_t image) {
    return *reinterpret_cast<const Values<In, kCount>*>(images + image * job.elements + first);
  };
  Values<Out, kCount> result;
  if (job.form.images == MixForm::Images::blended) {
    const Values<In, kCount> own = load(sample);
    const Values<In, kCount> other = load(partner);
    if constexpr (sizeof(In) == sizeof(float)) {
#pragma unroll
      for (int k = 0; k < kCount; ++k)
        store(result.value[k], mixed(own.value[k], other.value[k], drawn));
    }
  } else {
    constexpr std::uint32_t kAll = (1U << kCount) - 1;
    const std::uint32_t inside = in_box<kCount>(job, drawn, first);
    Values<In, kCount> own{};
    Values<In, kCount> other{};
    // Loads only the images of which pixels are used.
    if (inside != kAll) own = load(sample);
    if (inside != 0) other = load(partner);
#pragma unroll
    for (int k = 0; k < kCount; ++k)
      store(result.value[k], inside >> k & 1U ? other.value[k] : own.value[k]);
  }
  auto* to = static_cast<Out*>(job.batch.mixed) + std::int64_t{sample} * job.elements + first;
  *reinterpret_cast<Values<Out, kCount>*>(to) = result;
}

__device__ std::int64_t label_at(const Job& job, std::int64_t sample) {
  switch (job.form.label) {
    case DType::uint8:
      return static_cast<const std::uint8_t*>(job.batch.labels)[sample];
    case DType::int32:
      return static_cast<const std::int32_t*>(job.batch.labels)[sample];
    default:
      return static_cast<const std::int64_t*>(job.batch.labels)[sample];
  }
}

__device__ void mix_label(const Job& job) {
  const std::int64_t at =
      static_cast<std::int64_t>((blockIdx.x - job.image_blocks) * kThreads + threadIdx.x);
  if (at >= job.batch.size * job.form.classes) return;
  const std::int64_t sample = at / job.form.classes;
  const DrawnMix drawn = job.batch.drawn == nullptr ? DrawnMix{} : job.batch.drawn[sample];
  job.batch.targets[at] =
      target(at - sample * job.form.classes, label_at(job, sample),
             label_at(job, mix_partner(sample, job.batch.size)), drawn, job.form);
}

/// The first blocks process images, the others labels: one launch for both.
template <typename In, typename Out, int kCount>
__global__ void __launch_bounds__(kThreads) mix_kernel(Job job) {
  if (blockIdx.x < job.image_blocks) return mix_values<In, Out, kCount>(job);
  mix_label(job);
}

template <typename In, typename Out, int kCount>
void launch(Job job, cudaStream_t stream) {
  constexpr std::uint32_t kPerBlock = kThreads * kCount;
  if (job.form.images != MixForm::Images::none)
    job.blocks_of_image = (job.elements + kPerBlock - 1) / kPerBlock;
  const auto size = static_cast<std::uint64_t>(job.batch.size);
  job.image_blocks = size * job.blocks_of_image;
  const std::uint64_t targets = size * static_cast<std::uint64_t>(job.form.classes);
  const std::uint64_t blocks = job.image_blocks + (targets + kThreads - 1) / kThreads;
  ensure(blocks <= INT32_MAX, "a batch has at most 2^31 - 1 blocks");
  if (blocks == 0) return;
  mix_kernel<In, Out, kCount><<<static_cast<unsigned>(blocks), kThreads, 0, stream>>>(job);
  check_cuda(cudaGetLastError());
}

/// Uses vectors of 16 bytes if every image starts at a multiple of that.
template <typename In, typename Out>
void launch(const Job& job, cudaStream_t stream) {
  constexpr int kCount = 16 / sizeof(In);
  job.elements % kCount == 0 ? launch<In, Out, kCount>(job, stream)
                             : launch<In, Out, 1>(job, stream);
}

}  // namespace

void mix_async(const MixForm& form, const MixBatch& batch, StreamView stream) {
  Job job{};
  job.form = form;
  job.batch = batch;
  job.elements = static_cast<std::uint32_t>(form.elements());
  job.inner = form.planar ? 1 : static_cast<std::uint32_t>(form.channels);
  job.row = static_cast<std::uint32_t>(form.width) * job.inner;
  if (form.dtype == DType::uint8) return launch<std::uint8_t, std::uint8_t>(job, stream.get());
  if (form.bf16) return launch<float, std::uint16_t>(job, stream.get());
  launch<float, float>(job, stream.get());
}

}  // namespace slipstream::cuda
