#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "cuda/cross_entropy_kernel.h"
#include "cuda/warp.h"

// Device code shared by the kernels of cross_entropy.cu.
namespace slipstream::cuda {

/// One block's contribution to the loss (not yet divided) and to the number of correct pixels.
struct Partial {
  double loss;
  std::int64_t correct;
};

struct CrossEntropyJob {
  const void* logits;
  void* gradient;
  const void* labels;
  Partial* partials;
  LogitLayout layout;
  std::int64_t total;  ///< images x pixels
  float factor;        ///< scale / total
  LabelType label_type;
};

/// Sums of one thread.
struct ThreadTotals {
  float loss = 0;
  int correct = 0;
};

__device__ inline float to_float(float x) { return x; }
__device__ inline float to_float(__nv_bfloat16 x) { return __bfloat162float(x); }
__device__ inline float to_float(__half x) { return __half2float(x); }

__device__ inline void store(float* to, float x) { *to = x; }
__device__ inline void store(__nv_bfloat16* to, float x) { *to = __float2bfloat16_rn(x); }
__device__ inline void store(__half* to, float x) { *to = __float2half_rn(x); }

/// Returns the label of pixel i, or -1 if it is outside the classes.
__device__ inline int label_at(const CrossEntropyJob& job, std::int64_t i) {
  const std::int64_t label = job.label_type == LabelType::u8
                                 ? static_cast<const std::uint8_t*>(job.labels)[i]
                                 : static_cast<const std::int64_t*>(job.labels)[i];
  return label >= 0 && label < job.layout.classes ? static_cast<int>(label) : -1;
}

/// Offset of the first logit of pixel `i`, counted through all images. 32-bit division is used if
/// possible, because 64-bit division is slow on a GPU.
__device__ inline std::int64_t logit_offset(const CrossEntropyJob& job, std::int64_t i) {
  const LogitLayout& layout = job.layout;
  std::int64_t image = 0;
  if (job.total <= UINT32_MAX) {
    image = static_cast<std::uint32_t>(i) / static_cast<std::uint32_t>(layout.pixels);
  } else {
    image = i / layout.pixels;
  }
  return image * layout.image + (i - image * layout.pixels) * layout.pixel;
}

/// Replaces one pixel's logits with their gradient. A label of -1 gives a NaN loss.
template <int kMax, bool kExact>
__device__ void softmax_gradient(float (&x)[kMax], int classes, int label, float factor,
                                 ThreadTotals& tally) {
  // The largest logit is subtracted before expf() so that nothing overflows.
  float largest = x[0];
  float chosen = NAN;
  int best = 0;
#pragma unroll
  for (int c = 0; c < kMax; ++c) {
    if (!kExact && c >= classes) continue;
    if (x[c] > largest) {
      largest = x[c];
      best = c;
    }
    // Compared with each c instead of reading x[label]: registers cannot be indexed by a value that
    // is known only at run time.
    if (c == label) chosen = x[c];
  }
  float sum = 0;
#pragma unroll
  for (int c = 0; c < kMax; ++c) {
    if (!kExact && c >= classes) continue;
    x[c] = expf(x[c] - largest);
    sum += x[c];
  }
  const float share = factor / sum;
#pragma unroll
  for (int c = 0; c < kMax; ++c) {
    if (!kExact && c >= classes) continue;
    x[c] = x[c] * share - (c == label ? factor : 0.0F);
  }
  tally.loss += logf(sum) + (largest - chosen);
  tally.correct += best == label ? 1 : 0;
}

template <int kThreads>
__device__ void write_partial(const CrossEntropyJob& job, const ThreadTotals& tally) {
  // Sums of floats depend on their order. warp_sum() and block_sum() use a fixed one, so the loss
  // has the same bits in every run.
  const float loss = warp_sum(tally.loss);
  const bool first = threadIdx.x % kWarpSize == 0;
  const double block_loss = block_sum<kThreads>(first ? static_cast<double>(loss) : 0.0);
  const int correct = block_sum<kThreads>(tally.correct);
  if (threadIdx.x == 0) job.partials[blockIdx.x] = {block_loss, correct};
}

}  // namespace slipstream::cuda
