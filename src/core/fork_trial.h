#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "slipstream/core/lane.h"
#include "slipstream/core/statistics.h"

namespace slipstream {

/// Decides whether branches run faster on one stream each or all on one stream. It measures calls
/// that are made anyway: a few of each form, alternating, timed by marks on the home lane. It never
/// waits for the device: it decides once all marks are reached. Not thread-safe.
class ForkTrial {
 public:
  static constexpr std::size_t kWarmUpCalls = 2;  ///< calls per form that are not measured
  /// Calls per form: 6 ratios are all above or all below 1 by chance in 3 % of cases.
  static constexpr std::size_t kMeasuredCalls = 6;

  /// Measurement of one forward or one backward pass through the branches.
  class Pass {
   public:
    /// Records the start. `home` must outlive the pass.
    explicit Pass(Lane& home);
    /// Records the end of the work since the last mark: that of one branch if branches run on one
    /// stream, that of all branches if each has its own stream.
    void mark();

   private:
    friend class ForkTrial;
    Lane& home_;
    std::vector<std::unique_ptr<Mark>> marks_;
  };
  struct Call {
    bool on_streams = false;
    std::vector<Pass> passes;  ///< completed passes; one that threw is not added
  };

  /// Returns the next call to measure; its caller adds passes to it until the following next().
  /// Returns nullptr if the call is not measured; it then uses streams if keeps_streams().
  std::shared_ptr<Call> next();

  bool is_decided() const { return measured_.n > 0; }
  bool keeps_streams() const { return measured_.value > 1; }
  /// Says why the form was chosen: it is faster, or both are equally fast within the interval of
  /// measured().
  /// REQUIRES: is_decided()
  std::string_view reason() const;
  /// Upper bound for the speedup of concurrent over sequential branches: the sum of the branches'
  /// times alone, divided by the longest. n = 0 until decided.
  const Measured& predicted() const { return predicted_; }
  /// Measured speedup of one stream per branch over one stream for all. n = 0 until decided.
  const Measured& measured() const { return measured_; }

 private:
  bool all_reached() const;
  void decide();

  std::size_t calls_ = 0;
  /// The calls to compare, alternating between the forms.
  std::vector<std::shared_ptr<Call>> kept_;
  Measured predicted_, measured_;
};

}  // namespace slipstream
