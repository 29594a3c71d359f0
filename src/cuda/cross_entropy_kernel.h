#pragma once

#include <cstdint>

#include "cuda/cuda.h"

namespace slipstream::cuda {

/// Where one logit lies: element (image n, class c, pixel p) at n * image + c * cls + p * pixel
/// (in elements). Channels-last: cls 1, pixel = classes. Contiguous NCHW: cls = pixels, pixel 1.
struct LogitLayout {
  std::int64_t images = 0, classes = 0, pixels = 0;
  std::int64_t image = 0, cls = 0, pixel = 0;
};

enum class LogitType : std::uint8_t { f32, bf16, f16 };
/// Class numbers; or float32 probabilities of every class.
enum class LabelType : std::uint8_t { u8, i64, probabilities };

/// Scratch that cross_entropy_async needs, bytes.
std::size_t cross_entropy_scratch_bytes(const LogitLayout& layout);

/// Mean softmax cross entropy over all images x pixels and its gradient in one pass over the
/// logits, deterministic (fixed reduction order, no float atomics):
///   loss     = mean over pixels of log(sum_c exp(x_c)) - x_label           (float32, device)
///   gradient = scale * (softmax(x) - onehot(label)) / (images * pixels)    (type and layout of x)
///   correct  = number of pixels whose largest logit (the first of equals) is the label (int64)
/// Arithmetic in float32 whatever the type of x. Labels: images x pixels, contiguous; a label
/// outside 0 ... classes-1 gives a NaN loss and writes no memory it should not.
/// With probabilities t, images x pixels x classes, contiguous:
///   loss     = mean over pixels of sum_c t_c (log(sum_k exp(x_k)) - x_c), classes of t 0 left out
///   gradient = scale * (softmax(x) * sum_k t_k - t) / (images * pixels)
///   correct  = number of pixels whose largest logit and largest t (the first of equals) are one's
/// Asynchronous on `stream`; two kernels; `scratch` as above, 256-byte aligned.
void cross_entropy_async(const void* logits, LogitType type, const LogitLayout& layout,
                         const void* labels, LabelType label_type, float scale, void* gradient,
                         float* loss, std::int64_t* correct, void* scratch, StreamView stream);

}  // namespace slipstream::cuda
