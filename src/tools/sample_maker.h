#pragma once

#include <vector>

#include "tools/convert.h"

namespace slipstream {

/// Returns samples of a data set after fixed transforms. Not thread-safe: each thread has its own.
class SampleMaker {
 public:
  /// Which fields make() returns decoded. Every field is decoded at least as a check, so that
  /// damage is found also in files that are copied.
  enum class Decode { all, what_changes };

  /// The first three arguments must outlive this object. `specs` are the data set's fields.
  SampleMaker(const Dataset& dataset, const std::vector<FieldSpec>& specs,
              const ConvertOptions& options, Decode decode);

  /// Returns a sample, which is valid until the next call. Throws BadSample if the sample is at
  /// fault, else Error, naming the sample.
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

/// Formats "sample INDEX (NAME): WHAT".
std::string at_sample(const Dataset& dataset, std::size_t index, const std::string& what);

}  // namespace slipstream
