#include <algorithm>

#include "cuda/cross_entropy_device.h"
#include "cuda/cross_entropy_tile.h"

namespace slipstream::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / kWarpSize;
// The number of blocks depends only on the problem, never on the device, so that the order of
// additions is fixed.
constexpr std::int64_t kMostBlocks = 4096;
constexpr int kMostClassesInRegisters = 32;
// Blocks that must fit on a multiprocessor at once, so that enough loads are in flight. With this
// limit the kernel has 48 registers and does not spill.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
constexpr int kExactBlocks = 4;  // the maximum of sm_75
#else
constexpr int kExactBlocks = 5;
#endif

__device__ int lane_of_thread() { return static_cast<int>(threadIdx.x) % kWarpSize; }
__device__ std::int64_t warp_of_grid() {
  return std::int64_t{blockIdx.x} * kWarps + threadIdx.x / kWarpSize;
}
__device__ std::int64_t warps_of_grid() { return std::int64_t{gridDim.x} * kWarps; }

// Dense channels-last logits with few classes. A pixel's logits are adjacent, so threads that load
// one pixel each would access memory with a stride; a tile in shared memory makes the accesses
// contiguous.
template <typename T, int kMax, bool kExact>
__global__ void __launch_bounds__(kThreads, kExact ? kExactBlocks : 1)
    dense_kernel(CrossEntropyJob job) {
  using PixelTile = Tile<T, kMax, kExact>;
  constexpr int kPixels = PixelTile::kPixels;
  extern __shared__ __align__(16) unsigned char shared[];
  const int classes = kExact ? kMax : static_cast<int>(job.layout.classes);
  const int lane = lane_of_thread();
  PixelTile tile(shared + threadIdx.x / kWarpSize * PixelTile::bytes(classes), classes);
  ThreadTotals tally;
  const std::int64_t stride = warps_of_grid() * kPixels;
  for (std::int64_t first = warp_of_grid() * kPixels; first < job.total; first += stride) {
    const int pixels = static_cast<int>(min(std::int64_t{kPixels}, job.total - first));
    tile.fetch(static_cast<const T*>(job.logits) + first * classes, pixels, lane);
    // Loads the label while the asynchronous copy of the logits is in progress.
    const int label = lane < pixels ? label_at(job, first + lane) : -1;
    tile.await();
    if (lane < pixels) {
      float x[kMax];
      tile.load(lane, x);
      softmax_gradient<kMax, kExact>(x, classes, label, job.factor, tally);
      tile.put(lane, x);
    }
    tile.flush(static_cast<T*>(job.gradient) + first * classes, pixels, lane);
  }
  write_partial<kThreads>(job, tally);
}

// Any strides, few classes: one thread per pixel, which keeps its logits in registers.
template <typename T, int kMax>
__global__ void __launch_bounds__(kThreads) strided_kernel(CrossEntropyJob job) {
  const int classes = static_cast<int>(job.layout.classes);
  ThreadTotals tally;
  const std::int64_t stride = std::int64_t{gridDim.x} * kThreads;
  for (std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x; i < job.total;
       i += stride) {
    const std::int64_t offset = logit_offset(job, i);
    const T* logits = static_cast<const T*>(job.logits) + offset;
    T* gradient = static_cast<T*>(job.gradient) + offset;
    const int label = label_at(job, i);
    float x[kMax];
#pragma unroll
    for (int c = 0; c < kMax; ++c) {
      if (c < classes) x[c] = to_float(logits[c * job.layout.cls]);
    }
    softmax_gradient<kMax, false>(x, classes, label, job.factor, tally);
#pragma unroll
    for (int c = 0; c < kMax; ++c) {
      if (c < classes) store(gradient + c * job.layout.cls, x[c]);
    }
  }
  write_partial<kThreads>(job, tally);
}

struct MaxLogit {
  float value;
  std::int64_t at;
};

// Returns the largest of get_value(0 ... count-1), the first of equals, in all threads of a group
// of kGroup threads (1, or a warp). Thread `member` reads every kGroup-th value.
template <int kGroup, typename ValueOf>
__device__ MaxLogit find_largest(std::int64_t count, int member, const ValueOf& get_value) {
  MaxLogit best{member < count ? get_value(member) : -INFINITY, member};
  for (std::int64_t c = member + kGroup; c < count; c += kGroup) {
    const float x = get_value(c);
    if (x > best.value) best = {x, c};
  }
#pragma unroll
  for (int mask = kGroup / 2; mask > 0; mask /= 2) {
    const float other = __shfl_xor_sync(kAllLanes, best.value, mask);
    const std::int64_t other_at = __shfl_xor_sync(kAllLanes, best.at, mask);
    // Of equal values the first class wins, whichever thread has found it.
    if (other > best.value || (other == best.value && other_at < best.at)) best = {other, other_at};
  }
  return best;
}

// Returns the sum over a group of threads, in a fixed order, in all of its threads.
template <int kGroup>
__device__ float group_sum(float sum) {
#pragma unroll
  for (int mask = kGroup / 2; mask > 0; mask /= 2) sum += __shfl_xor_sync(kAllLanes, sum, mask);
  return sum;
}

// Processes one pixel of many classes with a group of kGroup threads (1, or a warp). Thread
// `member` processes every kGroup-th class. The result is added to the first member's tally.
template <typename T, int kGroup>
__device__ void many_classes(const CrossEntropyJob& job, std::int64_t pixel, int member,
                             ThreadTotals& tally) {
  const std::int64_t classes = job.layout.classes;
  const std::int64_t step = job.layout.cls;
  const std::int64_t offset = logit_offset(job, pixel);
  const T* logits = static_cast<const T*>(job.logits) + offset;
  T* gradient = static_cast<T*>(job.gradient) + offset;
  const int label = label_at(job, pixel);
  const auto [largest, best] = find_largest<kGroup>(
      classes, member, [&](std::int64_t c) { return to_float(logits[c * step]); });
  float sum = 0;
  for (std::int64_t c = member; c < classes; c += kGroup) {
    sum += expf(to_float(logits[c * step]) - largest);
  }
  sum = group_sum<kGroup>(sum);
  const float chosen = label < 0 ? NAN : to_float(logits[label * step]);
  const float share = job.factor / sum;
  // The gradient may overwrite the logits. All threads must have read logits[label] before.
  if (kGroup > 1) __syncwarp();
  for (std::int64_t c = member; c < classes; c += kGroup) {
    const float x = expf(to_float(logits[c * step]) - largest) * share;
    store(gradient + c * step, x - (c == label ? job.factor : 0.0F));
  }
  if (member != 0) return;
  tally.loss += logf(sum) + (largest - chosen);
  tally.correct += best == label ? 1 : 0;
}

template <typename T, int kGroup>
__global__ void __launch_bounds__(kThreads) many_classes_kernel(CrossEntropyJob job) {
  constexpr int kGroups = kThreads / kGroup;
  const int member = static_cast<int>(threadIdx.x) % kGroup;
  const std::int64_t stride = std::int64_t{gridDim.x} * kGroups;
  ThreadTotals tally;
  for (std::int64_t i = std::int64_t{blockIdx.x} * kGroups + threadIdx.x / kGroup; i < job.total;
       i += stride) {
    many_classes<T, kGroup>(job, i, member, tally);
  }
  write_partial<kThreads>(job, tally);
}

// Processes one pixel with probabilities instead of a label, with one warp.
template <typename T>
__device__ void soft_labels(const CrossEntropyJob& job, std::int64_t pixel, int member,
                            ThreadTotals& tally) {
  const std::int64_t classes = job.layout.classes;
  const std::int64_t step = job.layout.cls;
  const std::int64_t offset = logit_offset(job, pixel);
  const T* logits = static_cast<const T*>(job.logits) + offset;
  T* gradient = static_cast<T*>(job.gradient) + offset;
  const float* targets = static_cast<const float*>(job.labels) + pixel * classes;
  const auto logit = [&](std::int64_t c) { return to_float(logits[c * step]); };
  const MaxLogit largest = find_largest<kWarpSize>(classes, member, logit);
  const MaxLogit likely =
      find_largest<kWarpSize>(classes, member, [&](std::int64_t c) { return targets[c]; });
  float sum = 0;
  float whole = 0;
  for (std::int64_t c = member; c < classes; c += kWarpSize) {
    sum += expf(logit(c) - largest.value);
    whole += targets[c];
  }
  sum = group_sum<kWarpSize>(sum);
  const float share = job.factor * group_sum<kWarpSize>(whole) / sum;
  const float log_sum = logf(sum);
  float loss = 0;
  for (std::int64_t c = member; c < classes; c += kWarpSize) {
    const float x = logit(c);
    const float t = targets[c];
    // A class with probability 0 may have a logit of -inf, and 0 * inf would be NaN.
    if (t != 0) loss += t * (log_sum + (largest.value - x));
    store(gradient + c * step, expf(x - largest.value) * share - t * job.factor);
  }
  loss = group_sum<kWarpSize>(loss);
  if (member != 0) return;
  tally.loss += loss;
  tally.correct += largest.at == likely.at ? 1 : 0;
}

template <typename T>
__global__ void __launch_bounds__(kThreads) soft_labels_kernel(CrossEntropyJob job) {
  ThreadTotals tally;
  for (std::int64_t i = warp_of_grid(); i < job.total; i += warps_of_grid()) {
    soft_labels<T>(job, i, lane_of_thread(), tally);
  }
  write_partial<kThreads>(job, tally);
}

__global__ void __launch_bounds__(kThreads)
    finish_kernel(const Partial* partials, int count, double total, float* loss,
                  std::int64_t* correct) {
  Partial sum{0, 0};
  for (int i = static_cast<int>(threadIdx.x); i < count; i += kThreads) {
    sum.loss += partials[i].loss;
    sum.correct += partials[i].correct;
  }
  sum.loss = block_sum<kThreads>(sum.loss);
  sum.correct = block_sum<kThreads>(sum.correct);
  if (threadIdx.x != 0) return;
  *loss = static_cast<float>(sum.loss / total);
  *correct = sum.correct;
}

std::int64_t count_blocks(std::int64_t total, std::int64_t pixels_per_block) {
  return std::clamp<std::int64_t>((total + pixels_per_block - 1) / pixels_per_block, 1,
                                  kMostBlocks);
}

bool is_dense(const CrossEntropyJob& job) {
  const LogitLayout& layout = job.layout;
  const auto is_aligned = [](const void* p) {
    return reinterpret_cast<std::uintptr_t>(p) % 16 == 0;
  };
  return layout.cls == 1 && layout.pixel == layout.classes &&
         (layout.images == 1 || layout.image == layout.pixels * layout.classes) &&
         is_aligned(job.logits) && is_aligned(job.gradient);
}

// Each launch function returns the number of blocks; each block writes one partial sum.
template <typename T, int kMax, bool kExact>
int launch_dense(const CrossEntropyJob& job, StreamView stream) {
  using PixelTile = Tile<T, kMax, kExact>;
  const auto blocks = static_cast<int>(count_blocks(job.total, kWarps * PixelTile::kPixels));
  const int bytes = kWarps * PixelTile::bytes(static_cast<int>(job.layout.classes));
  dense_kernel<T, kMax, kExact><<<blocks, kThreads, bytes, stream.get()>>>(job);
  return blocks;
}

template <typename T>
int launch_few_classes(const CrossEntropyJob& job, StreamView stream) {
  const std::int64_t classes = job.layout.classes;
  if (is_dense(job)) {
    // Ten classes are compiled exactly: without padding in shared memory and without checks of the
    // number of classes.
    if (classes == 10) return launch_dense<T, 10, true>(job, stream);
    if (classes <= 8) return launch_dense<T, 8, false>(job, stream);
    if (classes <= 16) return launch_dense<T, 16, false>(job, stream);
    return launch_dense<T, 32, false>(job, stream);
  }
  const auto blocks = static_cast<int>(count_blocks(job.total, kThreads));
  if (classes <= 16) {
    strided_kernel<T, 16><<<blocks, kThreads, 0, stream.get()>>>(job);
  } else {
    strided_kernel<T, 32><<<blocks, kThreads, 0, stream.get()>>>(job);
  }
  return blocks;
}

template <typename T>
int launch(const CrossEntropyJob& job, StreamView stream) {
  if (job.label_type == LabelType::probabilities) {
    const auto blocks = static_cast<int>(count_blocks(job.total, kWarps));
    soft_labels_kernel<T><<<blocks, kThreads, 0, stream.get()>>>(job);
    return blocks;
  }
  if (job.layout.classes <= kMostClassesInRegisters) return launch_few_classes<T>(job, stream);
  if (job.layout.cls == 1) {
    const auto blocks = static_cast<int>(count_blocks(job.total, kWarps));
    many_classes_kernel<T, kWarpSize><<<blocks, kThreads, 0, stream.get()>>>(job);
    return blocks;
  }
  const auto blocks = static_cast<int>(count_blocks(job.total, kThreads));
  many_classes_kernel<T, 1><<<blocks, kThreads, 0, stream.get()>>>(job);
  return blocks;
}

int launch(const CrossEntropyJob& job, LogitType type, StreamView stream) {
  switch (type) {
    case LogitType::bf16:
      return launch<__nv_bfloat16>(job, stream);
    case LogitType::f16:
      return launch<__half>(job, stream);
    case LogitType::f32:
      break;
  }
  return launch<float>(job, stream);
}

}  // namespace

std::size_t cross_entropy_scratch_bytes(const LogitLayout& layout) {
  const auto blocks = count_blocks(layout.images * layout.pixels, kWarps);
  return static_cast<std::size_t>(blocks) * sizeof(Partial);
}

void cross_entropy_async(const void* logits, LogitType type, const LogitLayout& layout,
                         const void* labels, LabelType label_type, float scale, void* gradient,
                         float* loss, std::int64_t* correct, void* scratch, StreamView stream) {
  ensure(layout.images > 0 && layout.pixels > 0 && layout.classes > 0, "there are logits");
  ensure(layout.classes <= INT32_MAX, "classes fit into 31 bits");
  CrossEntropyJob job{};
  job.logits = logits;
  job.gradient = gradient;
  job.labels = labels;
  job.partials = static_cast<Partial*>(scratch);
  job.layout = layout;
  job.total = layout.images * layout.pixels;
  job.factor = static_cast<float>(static_cast<double>(scale) / static_cast<double>(job.total));
  job.label_type = label_type;
  const int blocks = launch(job, type, stream);
  check_cuda(cudaGetLastError());
  finish_kernel<<<1, kThreads, 0, stream.get()>>>(job.partials, blocks,
                                                  static_cast<double>(job.total), loss, correct);
  check_cuda(cudaGetLastError());
}

}  // namespace slipstream::cuda
