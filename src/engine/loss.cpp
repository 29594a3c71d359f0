#include "slipstream/engine/loss.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <c10/cuda/CUDAStream.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "cuda/cross_entropy_kernel.h"
#include "slipstream/core/error.h"

namespace slipstream {
namespace {

using cuda::LogitLayout;

constexpr std::int64_t kPixelsPerBlock = 4096;

/// Returns the layout of logits as images x classes x pixels, whatever their memory layout. Returns
/// no value if height and width cannot be traversed as one dimension.
std::optional<LogitLayout> find_layout(const at::Tensor& logits) {
  LogitLayout layout{logits.size(0), logits.size(1), 1, logits.stride(0), logits.stride(1), 1};
  if (logits.dim() == 4) {
    // The stride of a dimension of size 1 has no meaning, and contiguous() does not change it.
    const bool one_row = logits.size(2) == 1;
    const bool one_column = logits.size(3) == 1;
    layout.pixels = logits.size(2) * logits.size(3);
    layout.pixel = one_column ? logits.stride(2) : logits.stride(3);
    if (!one_row && !one_column && logits.stride(2) != logits.size(3) * logits.stride(3))
      return std::nullopt;
  }
  return layout;
}

bool is_probabilities(const at::Tensor& labels) {
  return labels.scalar_type() == at::kFloat && labels.dim() == 2;
}

[[noreturn]] void throw_of_classes(const at::Tensor& logits, std::int64_t classes) {
  const std::string count = std::to_string(classes);
  throw Error("cross entropy: an output of " + c10::str(logits.sizes()) + " has " +
              std::to_string(logits.size(1)) + " classes in its second dimension, but the labels " +
              "are of " + count + ": give the model " + count + " outputs");
}

void check_shapes(const at::Tensor& logits, const at::Tensor& labels) {
  if (is_probabilities(labels) && logits.dim() == 2 && logits.size(0) == labels.size(0) &&
      logits.size(1) != labels.size(1))
    throw_of_classes(logits, labels.size(1));
  const bool per_class = logits.dim() == 2 && labels.dim() == 1;
  const bool per_pixel = logits.dim() == 4 && labels.dim() == 3 &&
                         logits.size(2) == labels.size(1) && logits.size(3) == labels.size(2);
  const bool is_soft = is_probabilities(labels) && labels.sizes() == logits.sizes();
  if (!is_soft && ((!per_class && !per_pixel) || logits.size(0) != labels.size(0)))
    throw Error("cross entropy: logits of " + c10::str(logits.sizes()) + " and labels of " +
                c10::str(labels.sizes()) +
                " do not match; it accepts logits of batch x classes with labels of shape batch or "
                "float32 probabilities of batch x classes, or logits of batch x classes x height x "
                "width with labels of batch x height x width");
  if (logits.numel() == 0)
    throw Error("cross entropy: logits of " + c10::str(logits.sizes()) +
                " are empty; it needs at least one sample and one class");
  if (!is_soft && labels.scalar_type() != at::kByte && labels.scalar_type() != at::kLong)
    throw Error(
        "cross entropy: labels must be uint8 or int64, or float32 probabilities of batch x "
        "classes, not " +
        c10::str(labels.scalar_type()) + " of " + c10::str(labels.sizes()));
}

struct Sums {
  double loss = 0;
  std::int64_t correct = 0;
};

std::int64_t first_largest(const float* x, std::int64_t count, std::int64_t step) {
  std::int64_t best = 0;
  for (std::int64_t c = 1; c < count; ++c)
    if (x[c * step] > x[best * step]) best = c;
  return best;
}

/// Computes g = exp(x - largest) and returns the sum. Subtracting the largest logit keeps exp()
/// from overflowing.
float exponentials(const float* x, float largest, const LogitLayout& l, float* g) {
  float total = 0;
  for (std::int64_t c = 0; c < l.classes; ++c) {
    g[c * l.cls] = std::exp(x[c * l.cls] - largest);
    total += g[c * l.cls];
  }
  return total;
}

/// Adds the loss of one pixel with target probabilities `t`.
void add_soft(const float* x, const float* t, float* g, float weight, const LogitLayout& l,
              Sums& sums) {
  const std::int64_t best = first_largest(x, l.classes, l.cls);
  const float largest = x[best * l.cls];
  const float total = exponentials(x, largest, l, g);
  float whole = 0;
  for (std::int64_t c = 0; c < l.classes; ++c) whole += t[c];
  const float scale = weight * whole / total;
  const float log_total = std::log(total);
  float loss = 0;
  for (std::int64_t c = 0; c < l.classes; ++c) {
    // A class with probability 0 may have a logit of -inf, and 0 * inf would be NaN.
    if (t[c] != 0) loss += t[c] * (log_total + (largest - x[c * l.cls]));
    g[c * l.cls] = g[c * l.cls] * scale - t[c] * weight;
  }
  sums.loss += static_cast<double>(loss);
  sums.correct += best == first_largest(t, l.classes, 1);
}

template <typename Label>
Sums compute_cross_entropy(const float* logits, const Label* labels, float* gradient, float weight,
                           const LogitLayout& l, std::int64_t begin, std::int64_t end) {
  Sums sums;
  for (std::int64_t i = begin; i < end; ++i) {
    const std::int64_t at = i / l.pixels * l.image + i % l.pixels * l.pixel;
    const float* x = logits + at;
    float* g = gradient + at;
    if constexpr (std::is_floating_point_v<Label>) {
      add_soft(x, labels + i * l.classes, g, weight, l, sums);
      continue;
    }
    const std::int64_t best = first_largest(x, l.classes, l.cls);
    const float largest = x[best * l.cls];
    const float total = exponentials(x, largest, l, g);
    const auto label = static_cast<std::int64_t>(labels[i]);
    const float scale = weight / total;
    for (std::int64_t c = 0; c < l.classes; ++c) g[c * l.cls] *= scale;
    if (label < 0 || label >= l.classes) {
      // As in the CUDA kernel, which cannot throw. A loss that is not finite ends the run.
      sums.loss = std::numeric_limits<double>::quiet_NaN();
      continue;
    }
    g[label * l.cls] -= weight;
    sums.loss += static_cast<double>(std::log(total) + (largest - x[label * l.cls]));
    sums.correct += best == label;
  }
  return sums;
}

template <typename Label>
LossValue on_cpu(const at::Tensor& logits, const at::Tensor& labels, const LogitLayout& layout) {
  const std::int64_t count = layout.images * layout.pixels;
  at::Tensor gradient = at::empty_like(logits);
  std::vector<Sums> blocks(
      static_cast<std::size_t>((count + kPixelsPerBlock - 1) / kPixelsPerBlock));
  // Blocks have a fixed size that does not depend on the number of threads, so the order of
  // summation, and with it the result, does not either.
  at::parallel_for(0, static_cast<std::int64_t>(blocks.size()), 1, [&](auto first, auto last) {
    for (auto block = first; block < last; ++block)
      blocks[static_cast<std::size_t>(block)] = compute_cross_entropy(
          logits.const_data_ptr<float>(), labels.const_data_ptr<Label>(),
          gradient.data_ptr<float>(), 1.0F / static_cast<float>(count), layout,
          block * kPixelsPerBlock, std::min(count, (block + 1) * kPixelsPerBlock));
  });
  Sums sums;
  for (const Sums& block : blocks) {
    sums.loss += block.loss;
    sums.correct += block.correct;
  }
  at::Tensor loss = at::empty({}, logits.options());
  at::Tensor correct = at::empty({}, labels.options().dtype(at::kLong));
  *loss.data_ptr<float>() = static_cast<float>(sums.loss / static_cast<double>(count));
  *correct.data_ptr<std::int64_t>() = sums.correct;
  return {loss, gradient, correct, count};
}

cuda::LogitType logit_type(const at::Tensor& logits) {
  switch (logits.scalar_type()) {
    case at::kFloat:
      return cuda::LogitType::f32;
    case at::kBFloat16:
      return cuda::LogitType::bf16;
    case at::kHalf:
      return cuda::LogitType::f16;
    default:
      throw Error("cross entropy: logits must be float32, bf16 or fp16, not " +
                  c10::str(logits.scalar_type()));
  }
}

cuda::LabelType label_type(const at::Tensor& labels) {
  if (is_probabilities(labels)) return cuda::LabelType::probabilities;
  return labels.scalar_type() == at::kByte ? cuda::LabelType::u8 : cuda::LabelType::i64;
}

LossValue on_cuda(const at::Tensor& logits, const at::Tensor& labels, const LogitLayout& layout) {
  const cuda::StreamView stream(c10::cuda::getCurrentCUDAStream().stream());
  const auto bytes = [&](std::size_t n) {
    return at::empty({static_cast<std::int64_t>(n)}, logits.options().dtype(at::kByte));
  };
  at::Tensor gradient = at::empty_like(logits);
  at::Tensor loss = at::empty({}, logits.options().dtype(at::kFloat));
  at::Tensor correct = at::empty({}, logits.options().dtype(at::kLong));
  at::Tensor scratch = bytes(cuda::cross_entropy_scratch_bytes(layout));
  cuda::cross_entropy_async(logits.const_data_ptr(), logit_type(logits), layout,
                            labels.const_data_ptr(), label_type(labels), 1.0F,
                            gradient.mutable_data_ptr(), loss.data_ptr<float>(),
                            correct.data_ptr<std::int64_t>(), scratch.mutable_data_ptr(), stream);
  return {loss, gradient, correct, layout.images * layout.pixels};
}

}  // namespace

LossValue cross_entropy_value(const at::Tensor& output, const at::Tensor& labels) {
  check_shapes(output, labels);
  at::Tensor logits = output.detach();
  if (!logits.is_non_overlapping_and_dense() || !find_layout(logits)) logits = logits.contiguous();
  const at::Tensor dense_labels = labels.contiguous();
  if (logits.is_cuda()) return on_cuda(logits, dense_labels, *find_layout(logits));
  const at::Tensor floats = logits.to(at::kFloat);
  const auto on_cpu_with = [&](auto label) {
    return on_cpu<decltype(label)>(floats, dense_labels, *find_layout(floats));
  };
  LossValue value = is_probabilities(dense_labels)            ? on_cpu_with(float{})
                    : dense_labels.scalar_type() == at::kByte ? on_cpu_with(std::uint8_t{})
                                                              : on_cpu_with(std::int64_t{});
  value.gradient = value.gradient.to(logits.scalar_type());
  return value;
}

Loss cross_entropy(std::string input, std::string target) {
  return {std::move(input),
          [target = std::move(target)](const at::Tensor& output, const Batch& batch) {
            const at::Tensor& labels = batch.at(target);
            const std::int64_t classes = batch.classes(target);
            if (output.dim() > 1 && output.size(1) < classes) throw_of_classes(output, classes);
            return cross_entropy_value(output, labels);
          }};
}

Loss custom_loss(std::string input,
                 std::function<at::Tensor(const at::Tensor&, const Batch&)> function) {
  return {std::move(input),
          [function = std::move(function)](const at::Tensor& output, const Batch& batch) {
            return LossValue{function(output, batch), {}, {}, 0};
          }};
}

}  // namespace slipstream
