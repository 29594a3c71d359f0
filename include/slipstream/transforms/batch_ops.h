#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "slipstream/transforms/op.h"

namespace slipstream {

// Operations over whole batches. They stand at the end of a chain. Under every plan the device does
// them, as the step "mix" of a training pipeline. The partner of sample i is sample i - 1; the
// partner of the first sample is the last one. Every sample draws for itself, as docs/random.md
// says. The label, one class number for each sample, becomes probabilities: float32, batch x
// classes.

/// Mixes every image (float32) and label with its partner's: lambda x own + (1 - lambda) x
/// partner's, with lambda drawn from Beta(alpha, alpha). Source: Zhang et al., "mixup: Beyond
/// empirical risk minimization", ICLR 2018.
struct MixUp {
  static constexpr std::string_view kName = "mixup";
  static constexpr bool kIsOverBatch = true;
  double alpha = 1;  ///< above 0, at most 1000

  void validate() const;
  bool operator==(const MixUp&) const = default;
};

/// Replaces a box of every image (uint8 or float32) by the same box of its partner. With lambda
/// drawn from Beta(alpha, alpha), the sides of the box are sqrt(1 - lambda) of the image's, its
/// middle is anywhere in the image, and what would lie outside is left off. Labels are mixed by the
/// area of the box that is left. Source: Yun et al., "CutMix: Regularization strategy to train
/// strong classifiers with localizable features", ICCV 2019.
struct CutMix {
  static constexpr std::string_view kName = "cutmix";
  static constexpr bool kIsOverBatch = true;
  double alpha = 1;  ///< above 0, at most 1000

  void validate() const;
  bool operator==(const CutMix&) const = default;
};

/// Makes probabilities of class numbers: the label's class gets 1 - label_smoothing +
/// label_smoothing / classes, every other class label_smoothing / classes. MixUp and CutMix do the
/// same without smoothing where the chain has no OneHot.
struct OneHot {
  static constexpr std::string_view kName = "one_hot";
  static constexpr bool kIsOverBatch = true;
  double label_smoothing = 0;  ///< 0 to 1

  void validate() const;
  bool operator==(const OneHot&) const = default;
};

/// The operations over batches of one chain.
struct BatchOps {
  std::optional<MixUp> mixup = std::nullopt;
  std::optional<CutMix> cutmix = std::nullopt;
  std::optional<OneHot> one_hot = std::nullopt;

  /// Whether there is none.
  bool empty() const { return !mixup && !cutmix && !one_hot; }
  /// Whether samples are mixed with their partners, by Mixup or CutMix.
  bool mixes() const { return mixup || cutmix; }
  /// "mixup", "cutmix" or "one_hot", the first of these that is there, for messages.
  /// REQUIRES: !empty()
  std::string_view name() const;
  /// Takes `next`, the next operation of a chain, and returns true if it is an operation over
  /// batches; returns false for an operation on samples. Throws Refused for bad parameters, a
  /// second one of its kind, mixup beside cutmix, and an operation on samples that comes after one
  /// over batches.
  bool take(const NamedOp& next);
  bool operator==(const BatchOps&) const = default;
};

/// Removes the operations over batches from the end of `chain` and returns them. Throws Refused
/// where BatchOps::take() does.
BatchOps take_batch_ops(std::vector<NamedOp>& chain);

}  // namespace slipstream
