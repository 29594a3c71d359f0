#include "cuda/augment/values.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace slipstream::augment {
namespace {

/// Returns true if no weight or offset is tiny.
bool has_few_bits(const ColorMatrix& matrix, std::size_t c) {
  const auto is_fine = [](float value) { return value == 0 || std::abs(value) > 0x1p-30F; };
  return is_fine(matrix.offset[c]) && std::all_of(matrix.row[c], matrix.row[c] + 3, is_fine);
}

}  // namespace

Values initial_values(Range range) {
  if (range == Range::levels) return {255, true};
  return {std::numeric_limits<double>::infinity(), false};
}

void set_divisors(const Values& values, ProgramStep& step) {
  const bool subtracts = step.kind == StepKind::normalize;
  for (std::size_t c = 0; c < 4; ++c) {
    const double less = subtracts ? std::abs(step.subtracted[c]) : 0;
    // The difference of a float and `less` is 0 or at least about one unit in the last place of
    // `less`.
    const bool are_coarse = less == 0 ? values.are_coarse : less > 0x1p-30;
    Divisor& divisor = step.divisor[c];
    divisor.is_usual = divisor.inverse != 0 && are_coarse && values.most + less < 0x1p60;
    divisor.is_signed = step.range == Range::unit && less == 0;
  }
}

// Sums of integers by fma have few significant bits, so they stay coarse.
void advance(const ProgramStep& step, Values& values) {
  switch (step.kind) {
    case StepKind::flip_across:
    case StepKind::flip_down:
    case StepKind::to_float:
      break;
    case StepKind::function:
      values = initial_values(Range::unit);
      break;
    case StepKind::convert_color:
      values.are_coarse = step.range == Range::levels;
      break;
    case StepKind::crop:
    case StepKind::warp:
    case StepKind::erase:
    case StepKind::mask:
      for (const float fill : step.fill) {
        values.most = std::max<double>(values.most, std::abs(fill));
        values.are_coarse &= !step.interpolates && (fill == 0 || std::abs(fill) > 0x1p-30F);
      }
      break;
    default:
      values.are_coarse = step.range == Range::levels && step.kind != StepKind::normalize &&
                          step.kind != StepKind::scale;
  }
  double factor = 2;  // covers rounding errors
  if (step.kind == StepKind::convert_color) {
    double offset = 0;
    for (std::size_t c = 0; c < 3; ++c) {
      for (const float weight : step.matrix.row[c]) factor += std::abs(weight);
      offset += std::abs(step.matrix.offset[c]);
      values.are_coarse &= has_few_bits(step.matrix, c);
    }
    values.most += offset;
  }
  if (step.kind == StepKind::normalize || step.kind == StepKind::scale) {
    for (std::size_t c = 0; c < 4; ++c) {
      values.most += std::abs(step.subtracted[c]);
      factor += 1 / std::abs(static_cast<double>(step.divisor[c].value));
    }
  }
  values.most *= factor;
}

}  // namespace slipstream::augment
