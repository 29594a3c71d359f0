#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "slipstream/transforms/op.h"

namespace slipstream {

// Operations over whole batches. They come last in a chain. Under every plan they run on the
// device, as the step "mix" of a training pipeline. The partner of sample i is sample i - 1; the
// partner of the first sample is the last one. Random numbers are generated per sample, as
// docs/random.md specifies. The label, one class index per sample, is replaced by probabilities:
// float32, batch x classes.

/// Mixes every image (float32) and label with its partner's: lambda x own + (1 - lambda) x
/// partner's, with lambda sampled from Beta(alpha, alpha). Source: Zhang et al., "mixup: Beyond
/// empirical risk minimization", ICLR 2018.
struct MixUp {
  static constexpr std::string_view kName = "mixup";
  static constexpr bool kIsOverBatch = true;
  double alpha = 1;  ///< above 0, at most 1000

  void validate() const;
  bool operator==(const MixUp&) const = default;
};

/// Replaces a box of every image (uint8 or float32) with the same box of its partner. lambda is
/// sampled from Beta(alpha, alpha). The sides of the box are sqrt(1 - lambda) of the image's, its
/// center is anywhere in the image, and the box is clipped to the image. Labels are mixed in
/// proportion to the area of the clipped box. Source: Yun et al., "CutMix: Regularization strategy
/// to train strong classifiers with localizable features", ICCV 2019.
struct CutMix {
  static constexpr std::string_view kName = "cutmix";
  static constexpr bool kIsOverBatch = true;
  double alpha = 1;  ///< above 0, at most 1000

  void validate() const;
  bool operator==(const CutMix&) const = default;
};

/// Converts class indices to probabilities: the label's class gets 1 - label_smoothing +
/// label_smoothing / classes, every other class label_smoothing / classes. If a chain has MixUp or
/// CutMix but no OneHot, they convert labels without smoothing.
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

  /// Returns true if there is none.
  bool empty() const { return !mixup && !cutmix && !one_hot; }
  /// Returns true if samples are mixed with their partners, by MixUp or CutMix.
  bool mixes() const { return mixup || cutmix; }
  /// Returns the name of the first operation that is set, in the order "mixup", "cutmix",
  /// "one_hot". Used in messages.
  /// REQUIRES: !empty()
  std::string_view name() const;
  /// Processes `next`, the next operation of a chain. Returns true if it is an operation over
  /// batches and stores it; returns false for an operation on samples. Throws Refused for invalid
  /// parameters, for a second operation of the same kind, for mixup together with cutmix, and for
  /// an operation on samples after one over batches.
  bool take(const NamedOp& next);
  bool operator==(const BatchOps&) const = default;
};

/// Removes the operations over batches from the end of `chain` and returns them. Throws Refused
/// under the conditions of BatchOps::take().
BatchOps take_batch_ops(std::vector<NamedOp>& chain);

}  // namespace slipstream
