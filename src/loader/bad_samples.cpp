#include "loader/bad_samples.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "core/number_text.h"
#include "datasets/storage_error.h"
#include "slipstream/transforms/op.h"

namespace slipstream {

bool current_exception_is_the_samples(bool is_transform) {
  try {
    throw;
  } catch (const UnfitSample&) {
    return true;
  } catch (const StorageError&) {
    return false;
  } catch (const Error&) {
    return !is_transform;
  } catch (...) {
    return false;
  }
}

std::string all_are_bad(std::size_t samples) {
  return samples == 1 ? "the only sample is bad"
                      : "all " + format_count(samples, "sample") + " are bad";
}

BadSamples::BadSamples(OnBadSample what, const RunningOrder& order) : what_(what), order_(order) {}

SkippedSamples BadSamples::skipped() const {
  SkippedSamples skipped;
  skipped.replacements = places_;
  const Lock lock(mutex_);
  for (const auto& [sample, message] : known_) skipped.samples.push_back({sample, message});
  return skipped;
}

bool BadSamples::is_known(std::uint64_t sample) const {
  // Most runs have no bad sample, so most calls need no lock.
  // A thread that still reads false tries the sample, and finds out for itself that it is bad.
  if (!any_) return false;
  const Lock lock(mutex_);
  return known_.contains(sample);
}

void BadSamples::add(std::uint64_t sample, std::string message) {
  const Lock lock(mutex_);
  known_.emplace(sample, std::move(message));
  any_ = true;
}

void BadSamples::check_distance(const SamplePosition& place, std::uint16_t distance) const {
  // A distance has 16 bits.
  constexpr std::uint64_t kFarthest = std::numeric_limits<std::uint16_t>::max();
  const std::uint64_t farthest = std::min(order_.places(place.batch), kFarthest);
  if (distance < farthest) return;
  std::string first = "unknown";
  const SkippedSamples all = skipped();
  if (!all.samples.empty()) first = all.samples.front().message;
  const std::string what =
      farthest == 1 ? "the only sample is bad, so no other sample can replace it: "
                    : format_count(farthest, "sample") +
                          " in a row are bad, so no sample can replace them; the first: ";
  throw Error("batch " + std::to_string(place.batch) + ": " + what + first);
}

}  // namespace slipstream
