#pragma once

#include <vector>

#include "slipstream/dataset.h"
#include "slipstream/loader.h"

namespace slipstream {

/// Samples of a data set after fixed transforms. Of one thread.
class SampleMaker {
 public:
  enum class Decode { all, what_changes };

  /// All of these must outlive the maker; `specs` are the data set's.
  SampleMaker(const Dataset& dataset, const std::vector<FieldSpec>& specs,
              const std::vector<NamedOp>& transforms, Decode decode);

  /// Valid until the next call. Throws Error naming the sample.
  const Sample& make(std::size_t index);

 private:
  bool is_changed(const FieldSpec& spec) const;

  const Dataset& dataset_;
  const std::vector<FieldSpec>& specs_;
  const std::vector<NamedOp>& transforms_;
  Decode decode_;
  Sample sample_;
  std::vector<HostArray> spare_;
  Scratch scratch_;
};

/// Throws Error "sample INDEX (NAME): WHAT".
[[noreturn]] void fail_at_sample(const Dataset& dataset, std::size_t index,
                                 const std::string& what);

}  // namespace slipstream
