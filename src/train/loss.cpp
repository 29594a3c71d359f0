#include "slipstream/loss.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <c10/cuda/CUDAStream.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "slipstream/cross_entropy_kernel.h"
#include "slipstream/error.h"

namespace slipstream {
namespace {

using cuda::LogitLayout;

constexpr std::int64_t kPixelsPerBlock = 4096;

/// Logits as images x classes x pixels whatever their layout; nothing when height and width cannot
/// be walked as one dimension.
std::optional<LogitLayout> layout_of(const at::Tensor& logits) {
  LogitLayout layout{logits.size(0), logits.size(1), 1, logits.stride(0), logits.stride(1), 1};
  if (logits.dim() == 4) {
    // The stride of a dimension of size 1 means nothing, and contiguous() leaves it as it is.
    const bool one_row = logits.size(2) == 1;
    const bool one_column = logits.size(3) == 1;
    layout.pixels = logits.size(2) * logits.size(3);
    layout.pixel = one_column ? logits.stride(2) : logits.stride(3);
    if (!one_row && !one_column && logits.stride(2) != logits.size(3) * logits.stride(3))
      return std::nullopt;
  }
  return layout;
}

void check_shapes(const at::Tensor& logits, const at::Tensor& labels) {
  const bool per_class = logits.dim() == 2 && labels.dim() == 1;
  const bool per_pixel = logits.dim() == 4 && labels.dim() == 3 &&
                         logits.size(2) == labels.size(1) && logits.size(3) == labels.size(2);
  if ((!per_class && !per_pixel) || logits.size(0) != labels.size(0))
    throw Error("cross entropy: logits of " + c10::str(logits.sizes()) + " and labels of " +
                c10::str(labels.sizes()) +
                " do not fit; it takes batch x classes with batch labels, or batch x classes x "
                "height x width with batch x height x width labels");
  if (logits.numel() == 0)
    throw Error("cross entropy: logits of " + c10::str(logits.sizes()) +
                " are empty; it takes at least one sample and one class");
  if (labels.scalar_type() != at::kByte && labels.scalar_type() != at::kLong)
    throw Error("cross entropy: labels are uint8 or int64, not " + c10::str(labels.scalar_type()));
}

struct Sums {
  double loss = 0;
  std::int64_t correct = 0;
};

template <typename Label>
Sums cross_entropy_of(const float* logits, const Label* labels, float* gradient, float weight,
                      const LogitLayout& l, std::int64_t begin, std::int64_t end) {
  Sums sums;
  for (std::int64_t i = begin; i < end; ++i) {
    const std::int64_t at = i / l.pixels * l.image + i % l.pixels * l.pixel;
    const float* x = logits + at;
    float* g = gradient + at;
    std::int64_t best = 0;
    for (std::int64_t c = 1; c < l.classes; ++c)
      if (x[c * l.cls] > x[best * l.cls]) best = c;
    const float largest = x[best * l.cls];
    float total = 0;
    for (std::int64_t c = 0; c < l.classes; ++c) {
      g[c * l.cls] = std::exp(x[c * l.cls] - largest);
      total += g[c * l.cls];
    }
    const auto label = static_cast<std::int64_t>(labels[i]);
    const float scale = weight / total;
    for (std::int64_t c = 0; c < l.classes; ++c) g[c * l.cls] *= scale;
    if (label < 0 || label >= l.classes) {
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
  // Blocks do not depend on the number of threads, so neither does the sum.
  at::parallel_for(0, static_cast<std::int64_t>(blocks.size()), 1, [&](auto first, auto last) {
    for (auto block = first; block < last; ++block)
      blocks[static_cast<std::size_t>(block)] =
          cross_entropy_of(logits.const_data_ptr<float>(), labels.const_data_ptr<Label>(),
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
      throw Error("cross entropy: logits are float32, bf16 or fp16, not " +
                  c10::str(logits.scalar_type()));
  }
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
  const bool narrow = labels.scalar_type() == at::kByte;
  cuda::cross_entropy_async(
      logits.const_data_ptr(), logit_type(logits), layout, labels.const_data_ptr(),
      narrow ? cuda::LabelType::u8 : cuda::LabelType::i64, 1.0F, gradient.mutable_data_ptr(),
      loss.data_ptr<float>(), correct.data_ptr<std::int64_t>(), scratch.mutable_data_ptr(), stream);
  return {loss, gradient, correct, layout.images * layout.pixels};
}

}  // namespace

LossValue cross_entropy_value(const at::Tensor& output, const at::Tensor& labels) {
  check_shapes(output, labels);
  at::Tensor logits = output.detach();
  if (!logits.is_non_overlapping_and_dense() || !layout_of(logits)) logits = logits.contiguous();
  const at::Tensor dense_labels = labels.contiguous();
  if (logits.is_cuda()) return on_cuda(logits, dense_labels, *layout_of(logits));
  const at::Tensor floats = logits.to(at::kFloat);
  LossValue value = dense_labels.scalar_type() == at::kByte
                        ? on_cpu<std::uint8_t>(floats, dense_labels, *layout_of(floats))
                        : on_cpu<std::int64_t>(floats, dense_labels, *layout_of(floats));
  value.gradient = value.gradient.to(logits.scalar_type());
  return value;
}

Loss cross_entropy(std::string input, std::string target) {
  return {std::move(input),
          [target = std::move(target)](const at::Tensor& output, const Batch& batch) {
            return cross_entropy_value(output, batch.at(target));
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
