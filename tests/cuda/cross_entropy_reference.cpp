#include "cuda/cross_entropy_reference.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

namespace slipstream::test {
namespace {

using cuda::LabelType;
using cuda::LogitLayout;
using cuda::LogitType;

void encode(std::byte* to, LogitType type, float value) {
  if (type == LogitType::f32) {
    std::memcpy(to, &value, sizeof value);
  } else if (type == LogitType::bf16) {
    const __nv_bfloat16 narrow = __float2bfloat16_rn(value);
    std::memcpy(to, &narrow, sizeof narrow);
  } else {
    const __half narrow = __float2half_rn(value);
    std::memcpy(to, &narrow, sizeof narrow);
  }
}

std::size_t element_offset(const LogitLayout& layout, std::int64_t i, std::int64_t c) {
  return static_cast<std::size_t>(i / layout.pixels * layout.image + c * layout.cls +
                                  i % layout.pixels * layout.pixel);
}

struct Pixel {
  std::vector<double> x;
  std::size_t largest = 0;
  double sum = 0;

  explicit Pixel(std::vector<double> logits) : x(std::move(logits)) {
    largest = static_cast<std::size_t>(std::max_element(x.begin(), x.end()) - x.begin());
    for (const double value : x) sum += std::exp(value - x[largest]);
  }
  double softmax(std::size_t c) const { return std::exp(x[c] - x[largest]) / sum; }
  double loss(std::size_t label) const { return std::log(sum) + x[largest] - x[label]; }
};

/// Adds the probabilities of one pixel: most are 0, as in mixed labels, or nearly all are above 0;
/// some are equal.
void add_probabilities(std::mt19937& random, CrossEntropyProblem& problem) {
  const bool is_mixed = random() % 2 == 0;
  float sum = 0;
  for (std::int64_t c = 0; c < problem.layout.classes; ++c) {
    const bool is_zero = is_mixed && random() % 4 != 0;
    const auto quarters = static_cast<float>(random() % 5);
    problem.probabilities.push_back(is_zero ? 0 : quarters);
    sum += problem.probabilities.back();
  }
  const auto first = problem.probabilities.end() - problem.layout.classes;
  if (sum > 0) std::for_each(first, problem.probabilities.end(), [&](float& p) { p /= sum; });
}

/// Returns the target of every class; all 0 for a label that is no class.
std::vector<double> make_target(const CrossEntropyProblem& problem, std::int64_t pixel) {
  const auto classes = static_cast<std::size_t>(problem.layout.classes);
  const auto at = static_cast<std::size_t>(pixel);
  std::vector<double> target(classes, 0);
  if (problem.label_type == LabelType::probabilities) {
    for (std::size_t c = 0; c < classes; ++c)
      target[c] = static_cast<double>(problem.probabilities[at * classes + c]);
  } else if (static_cast<std::uint64_t>(problem.labels[at]) < classes) {
    target[static_cast<std::size_t>(problem.labels[at])] = 1;
  }
  return target;
}

}  // namespace

std::size_t CrossEntropyProblem::element_bytes() const { return type == LogitType::f32 ? 4 : 2; }

std::size_t CrossEntropyProblem::elements() const {
  return element_offset(layout, layout.images * layout.pixels - 1, layout.classes - 1) + 1;
}

std::vector<std::byte> CrossEntropyProblem::label_bytes() const {
  if (label_type == LabelType::probabilities) {
    std::vector<std::byte> bytes(probabilities.size() * sizeof(float));
    std::memcpy(bytes.data(), probabilities.data(), bytes.size());
    return bytes;
  }
  const std::size_t width = label_type == LabelType::u8 ? 1 : 8;
  std::vector<std::byte> bytes(labels.size() * width);
  for (std::size_t i = 0; i < labels.size(); ++i) {
    std::memcpy(bytes.data() + i * width, &labels[i], width);
  }
  return bytes;
}

float CrossEntropyProblem::logit(std::size_t element) const {
  return decode(logits.data() + element * element_bytes(), type);
}

float decode(const std::byte* from, LogitType type) {
  float value = 0;
  if (type == LogitType::f32) {
    std::memcpy(&value, from, sizeof value);
  } else if (type == LogitType::bf16) {
    __nv_bfloat16 narrow;
    std::memcpy(&narrow, from, sizeof narrow);
    value = __bfloat162float(narrow);
  } else {
    __half narrow;
    std::memcpy(&narrow, from, sizeof narrow);
    value = __half2float(narrow);
  }
  return value;
}

CrossEntropyProblem random_problem(const LogitLayout& layout, LogitType type,
                                   LabelType label_type) {
  CrossEntropyProblem problem{layout, type, label_type, 1.5F, {}, {}};
  const std::size_t width = problem.element_bytes();
  const std::int64_t total = layout.images * layout.pixels;
  problem.logits.resize(problem.elements() * width);
  for (std::size_t e = 0; e < problem.elements(); ++e) {
    encode(problem.logits.data() + e * width, type, std::numeric_limits<float>::quiet_NaN());
  }
  std::mt19937 random(static_cast<unsigned>(total * 31 + layout.classes));
  std::normal_distribution<float> normal(0, 3);
  for (std::int64_t i = 0; i < total; ++i) {
    const unsigned kind = random() % 16;
    for (std::int64_t c = 0; c < layout.classes; ++c) {
      float value = normal(random);
      if (kind == 0) value = std::round(value);  // makes ties likely
      if (kind == 1) value *= 30;
      encode(problem.logits.data() + element_offset(layout, i, c) * width, type, value);
    }
    if (label_type == LabelType::probabilities) add_probabilities(random, problem);
    const auto classes = static_cast<unsigned>(
        label_type == LabelType::u8 ? std::min<std::int64_t>(layout.classes, 256) : layout.classes);
    problem.labels.push_back(random() % classes);
  }
  return problem;
}

CrossEntropyResult solve(const CrossEntropyProblem& problem) {
  const LogitLayout& layout = problem.layout;
  const std::int64_t total = layout.images * layout.pixels;
  CrossEntropyResult result;
  result.gradient.assign(problem.elements(), 0);
  result.is_addressed.assign(problem.elements(), false);
  const double factor = static_cast<double>(problem.scale) / static_cast<double>(total);
  for (std::int64_t i = 0; i < total; ++i) {
    std::vector<double> x;
    for (std::int64_t c = 0; c < layout.classes; ++c) {
      x.push_back(static_cast<double>(problem.logit(element_offset(layout, i, c))));
    }
    const Pixel pixel(std::move(x));
    const std::vector<double> target = make_target(problem, i);
    const auto likely =
        static_cast<std::size_t>(std::max_element(target.begin(), target.end()) - target.begin());
    double whole = 0;
    for (const double t : target) whole += t;
    if (whole == 0 && problem.label_type != LabelType::probabilities) {
      result.loss = std::numeric_limits<double>::quiet_NaN();
      whole = 1;
    } else {
      result.correct += pixel.largest == likely ? 1 : 0;
    }
    for (std::size_t c = 0; c < pixel.x.size(); ++c) {
      const std::size_t element = element_offset(layout, i, static_cast<std::int64_t>(c));
      if (target[c] != 0) result.loss += target[c] * pixel.loss(c);
      result.gradient[element] = factor * (pixel.softmax(c) * whole - target[c]);
      result.is_addressed[element] = true;
    }
  }
  result.loss /= static_cast<double>(total);
  return result;
}

}  // namespace slipstream::test
