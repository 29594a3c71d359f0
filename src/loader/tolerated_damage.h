#pragma once

#include <map>
#include <string>
#include <vector>

#include "core/sync.h"
#include "slipstream/datasets/dataset.h"

namespace slipstream {

/// The samples whose files were used although a decoder warned of damage. Any thread may call all
/// functions.
class ToleratedDamage {
 public:
  /// Keeps the first message about a sample.
  void add(const Dataset& dataset, std::uint64_t sample, const std::string& warning)
      SLIPSTREAM_EXCLUDES(mutex_);
  /// Returns the samples in the order of their indices.
  std::vector<SkippedSample> samples() const SLIPSTREAM_EXCLUDES(mutex_);

 private:
  mutable Mutex mutex_;
  std::map<std::uint64_t, std::string> known_ SLIPSTREAM_GUARDED_BY(mutex_);
};

}  // namespace slipstream
