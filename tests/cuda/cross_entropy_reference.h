#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "cuda/cross_entropy_kernel.h"

namespace slipstream::test {

/// Logits (any layout and type) and labels in host memory. Elements that the layout does not
/// address are NaN.
struct CrossEntropyProblem {
  cuda::LogitLayout layout;
  cuda::LogitType type;
  cuda::LabelType label_type;
  float scale = 1;
  std::vector<std::byte> logits;
  std::vector<std::int64_t> labels;
  std::vector<float> probabilities = {};  ///< instead of labels; class by class

  std::size_t element_bytes() const;
  std::size_t elements() const;  ///< number of elements from the first to the last addressed one
  std::vector<std::byte> label_bytes() const;
  float logit(std::size_t element) const;
};

struct CrossEntropyResult {
  double loss = 0;
  std::int64_t correct = 0;
  std::vector<double> gradient;  ///< in the layout of the logits; 0 where not addressed
  std::vector<bool> is_addressed;
};

/// Returns random logits (with ties and extremes) and labels.
CrossEntropyProblem random_problem(const cuda::LogitLayout& layout, cuda::LogitType type,
                                   cuda::LabelType label_type);

/// Computes the result from the definition, in float64.
CrossEntropyResult solve(const CrossEntropyProblem& problem);

float decode(const std::byte* from, cuda::LogitType type);

}  // namespace slipstream::test
