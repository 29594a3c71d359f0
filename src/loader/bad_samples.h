#pragma once

#include <atomic>
#include <map>
#include <string>

#include "core/sync.h"
#include "loader/running_order.h"
#include "slipstream/core/error.h"
#include "slipstream/loader/data_loader.h"

namespace slipstream {

/// Thrown if one sample cannot be read, decoded or put into a batch, or is not valid for a
/// transform.
class BadSample : public Error {
 public:
  using Error::Error;
};

/// Returns true if one sample is the cause of the exception that is being handled, which a step
/// threw. `is_transform`: the step is a transform, whose other errors are faults of the program.
/// REQUIRES: called while an exception is handled
bool current_exception_is_the_samples(bool is_transform);

/// Returns a text such as "all 3 samples are bad" or "the only sample is bad".
std::string all_are_bad(std::size_t samples);

/// How bad samples are handled, and which ones have been found. All workers share one object.
class BadSamples {
 public:
  BadSamples(OnBadSample what, const RunningOrder& order);

  /// Calls `make(place)` for the sample at this position. If that sample is bad and bad samples are
  /// skipped, calls it for the next good sample in this rank's order. The replacement's occurrence
  /// contains its distance, so its random numbers depend only on the order, not on which worker
  /// found the bad sample first. Returns true if the sample was replaced. Throws Error if no sample
  /// is good.
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
  /// Returns true if the sample is known to be bad. Samples are only remembered if they are
  /// skipped.
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
