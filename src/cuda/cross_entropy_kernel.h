#pragma once

#include <cstdint>

#include "cuda/cuda.h"

namespace slipstream::cuda {

/// Memory layout of logits: element (image n, class c, pixel p) is at n * image + c * cls + p *
/// pixel (in elements). Channels-last: cls 1, pixel = classes. Contiguous NCHW: cls = pixels, pixel
/// 1.
struct LogitLayout {
  std::int64_t images = 0, classes = 0, pixels = 0;
  std::int64_t image = 0, cls = 0, pixel = 0;
};

enum class LogitType : std::uint8_t { f32, bf16, f16 };
/// Type of the labels: class indices, or float32 probabilities of every class.
enum class LabelType : std::uint8_t { u8, i64, probabilities };

/// Number of bytes of scratch memory that cross_entropy_async() needs.
std::size_t cross_entropy_scratch_bytes(const LogitLayout& layout);

/// Computes the mean softmax cross entropy over all images x pixels and its gradient in one pass
/// over the logits, deterministically (fixed reduction order, no float atomics):
///   loss     = mean over pixels of log(sum_c exp(x_c)) - x_label           (float32, device)
///   gradient = scale * (softmax(x) - onehot(label)) / (images * pixels)    (type and layout of x)
///   correct  = number of pixels whose largest logit (the first of equals) is the label (int64)
/// Computes in float32 for every type of x. Labels are images x pixels, contiguous. A label outside
/// 0 ... classes-1 gives a NaN loss and writes no memory out of bounds.
/// With probabilities t, images x pixels x classes, contiguous:
///   loss     = mean over pixels of sum_c t_c (log(sum_k exp(x_k)) - x_c), skipping classes with t
///   0 gradient = scale * (softmax(x) * sum_k t_k - t) / (images * pixels) correct  = number of
///   pixels whose largest logit and largest t (the first of equals) match
/// Asynchronous on `stream`, with two kernels. All pointers are device memory; `scratch` has
/// cross_entropy_scratch_bytes() bytes and is 256-byte aligned.
void cross_entropy_async(const void* logits, LogitType type, const LogitLayout& layout,
                         const void* labels, LabelType label_type, float scale, void* gradient,
                         float* loss, std::int64_t* correct, void* scratch, StreamView stream);

}  // namespace slipstream::cuda
