#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "slipstream/ops/op.h"

namespace slipstream {

// Operations over whole batches, the last of a chain. They are the device's, whatever the plan: the
// step "mix" of a training pipeline. Each sample i has its partner, sample i - 1 (of the first: the
// last), and draws for itself, as docs/random.md says. Their label, one class number a sample,
// becomes float32 probabilities, batch x classes.

/// Images (float32) and labels become lambda x their own + (1 - lambda) x the partner's, lambda
/// drawn from Beta(alpha, alpha). Source: Zhang et al., "mixup: Beyond empirical risk
/// minimization", ICLR 2018.
struct MixUp {
  static constexpr std::string_view kName = "mixup";
  static constexpr bool kIsOverBatch = true;
  double alpha = 1;  ///< above 0, at most 1000

  void validate() const;
  bool operator==(const MixUp&) const = default;
};

/// A box of the image (u8 or float32) is the partner's. With lambda from Beta(alpha, alpha), its
/// sides are sqrt(1 - lambda) of the image's, its middle is anywhere, and what would lie outside is
/// cut off; labels are mixed by the area that is left. Source: Yun et al., "CutMix: Regularization
/// strategy to train strong classifiers with localizable features", ICCV 2019.
struct CutMix {
  static constexpr std::string_view kName = "cutmix";
  static constexpr bool kIsOverBatch = true;
  double alpha = 1;  ///< above 0, at most 1000

  void validate() const;
  bool operator==(const CutMix&) const = default;
};

/// The label's class gets 1 - label_smoothing + label_smoothing / classes, every other
/// label_smoothing / classes. MixUp and CutMix do this by themselves, without smoothing, where the
/// chain does not name it.
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

  bool empty() const { return !mixup && !cutmix && !one_hot; }
  /// Whether samples get something of their partners.
  bool mixes() const { return mixup || cutmix; }
  /// "mixup", "cutmix" or "one_hot", for messages. REQUIRES: !empty()
  std::string_view name() const;
  /// Takes `next`, the next operation of a chain, and returns true if it is one of these. Throws
  /// Refused for bad parameters, a second one of its kind, mixup beside cutmix, and an operation of
  /// samples that comes behind one of these.
  bool take(const NamedOp& next);
  bool operator==(const BatchOps&) const = default;
};

/// Takes those of `chain` off its end. Throws Refused as BatchOps::take() does.
BatchOps take_batch_ops(std::vector<NamedOp>& chain);

}  // namespace slipstream
