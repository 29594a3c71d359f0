#pragma once

#include <atomic>
#include <map>
#include <string>

#include "core/sync.h"
#include "loader/running_order.h"
#include "slipstream/core/error.h"
#include "slipstream/loader/data_loader.h"

namespace slipstream {

/// One sample cannot be read, decoded or put into a batch, or does not fit a transform.
class BadSample : public Error {
 public:
  using Error::Error;
};

/// Whether one sample is to blame for what a step threw, which may be a transform.
/// REQUIRES: called while an exception is handled
bool current_exception_is_the_samples(bool is_transform);

/// "all 3 samples are bad", or "the only sample is bad".
std::string all_are_bad(std::size_t samples);

/// What to do about bad samples, and which were met. Workers share it.
class BadSamples {
 public:
  BadSamples(OnBadSample what, const RunningOrder& order);

  /// Calls `make(place)` for the sample that stands at this position. Where samples are skipped and
  /// it is bad, calls it for the next good one of this rank's order instead, whose occurrence tells
  /// its distance, so the outcome depends on nothing else. Returns true if another sample took the
  /// place of this one. Throws Error when no sample is good.
  template <typename Make>
  bool make_good(std::uint64_t batch, std::size_t position, const Make& make) {
    for (std::uint16_t distance = 0;; ++distance) {
      const SamplePosition place = order_.at(batch, position, distance);
      if (distance > 0) check_distance(place, distance);
      if (is_known(place.sample)) continue;
      try {
        make(place);
        if (distance > 0) ++places_;
        return distance > 0;
      } catch (const BadSample& bad) {
        if (!skips()) throw;
        add(place.sample, bad.what());
      }
    }
  }

  bool skips() const { return what_ == OnBadSample::skip; }
  /// Whether it was found to be bad, where such samples are skipped.
  bool is_known(std::uint64_t sample) const SLIPSTREAM_EXCLUDES(mutex_);
  SkippedSamples skipped() const SLIPSTREAM_EXCLUDES(mutex_);

 private:
  void add(std::uint64_t sample, std::string message) SLIPSTREAM_EXCLUDES(mutex_);
  void check_distance(const SamplePosition& place, std::uint16_t distance) const;

  const OnBadSample what_;
  const RunningOrder& order_;
  std::atomic<std::uint64_t> places_ = 0;
  std::atomic<bool> any_ = false;
  mutable Mutex mutex_;
  std::map<std::uint64_t, std::string> known_ SLIPSTREAM_GUARDED_BY(mutex_);
};

}  // namespace slipstream
