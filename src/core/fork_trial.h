#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "slipstream/core/lane.h"
#include "slipstream/core/statistics.h"

namespace slipstream {

/// Finds out on which of two forms branches are faster, each on a stream of its own or all on one,
/// from calls that are made anyway: a few of each form, in turns, timed by marks on the home lane.
/// Never waits for the device: it decides once all marks are reached.
class ForkTrial {
 public:
  static constexpr std::size_t kWarmUpCalls = 2;  ///< of each form, not measured
  static constexpr std::size_t kMeasuredCalls =
      6;  ///< of each form: all on one side of 1 by chance in 3 % of cases

  /// One way through the branches, forward or backward.
  class Pass {
   public:
    /// Marks the beginning. `home` must outlive the pass.
    explicit Pass(Lane& home);
    /// Marks the end of what came since the last mark: of each branch on one stream, of all of
    /// them on streams.
    void mark();

   private:
    friend class ForkTrial;
    Lane& home_;
    std::vector<std::unique_ptr<Mark>> marks_;
  };
  struct Call {
    bool on_streams = false;
    std::vector<Pass> passes;  ///< those that came through: one that threw is not added
  };

  /// The next call, to be filled by whoever makes it until the one after it; nullptr: it is not
  /// measured, and takes streams as keeps_streams() says.
  std::shared_ptr<Call> next();

  bool is_decided() const { return measured_.n > 0; }
  bool keeps_streams() const { return measured_.value > 1; }
  /// Why that form is kept: it is faster, or both are as fast within the interval of measured().
  /// REQUIRES: is_decided()
  std::string_view reason() const;
  /// How many times as fast as one after the other branches could be at most: the sum of their
  /// times alone over the longest. n = 0 until decided.
  const Measured& predicted() const { return predicted_; }
  /// How many times as fast as on one stream they were on streams. n = 0 until decided.
  const Measured& measured() const { return measured_; }

 private:
  bool all_reached() const;
  void decide();

  std::size_t calls_ = 0;
  std::vector<std::shared_ptr<Call>> kept_;  ///< those to be compared, the forms in turns
  Measured predicted_, measured_;
};

}  // namespace slipstream
