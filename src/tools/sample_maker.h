#pragma once

#include <vector>

#include "tools/convert.h"

namespace slipstream {

/// Samples of a data set after fixed transforms. Of one thread.
class SampleMaker {
 public:
  /// What make() leaves decoded. All is decoded once: damage shows in files that are copied, too.
  enum class Decode { all, what_changes };

  /// The first three must outlive the maker; `specs` are the data set's.
  SampleMaker(const Dataset& dataset, const std::vector<FieldSpec>& specs,
              const ConvertOptions& options, Decode decode);

  /// Valid until the next call. Throws BadSample where that is to blame, else Error, naming it.
  const Sample& make(std::size_t index);

 private:
  bool is_changed(const FieldSpec& spec) const;

  const Dataset& dataset_;
  const std::vector<FieldSpec>& specs_;
  const ConvertOptions& options_;
  Decode decode_;
  Sample sample_;
  std::vector<HostArray> spare_;
  Field tried_;
  Scratch scratch_;
};

/// "sample INDEX (NAME): WHAT".
std::string at_sample(const Dataset& dataset, std::size_t index, const std::string& what);

}  // namespace slipstream
