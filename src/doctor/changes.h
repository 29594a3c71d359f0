#pragma once

#include <optional>
#include <vector>

#include "doctor/model_parts.h"

namespace slipstream {

/// Finds changes of settings, code or data that may make a training faster, and predicts the
/// steps/s after each of them alone.
class Changes {
 public:
  Changes(const Observations& observed, const PipelineModel& now, double model_error);

  /// Returns the changes that gain at least kLeastGain.
  std::vector<Change> all();

 private:
  void add(Change change);
  /// Returns a change after which host step `step` takes no time: an upper bound of the gain.
  Change without(std::size_t step) const;
  /// Returns a change after which no host step of the group takes time.
  Change without_group(Bottleneck group) const;
  /// Returns the host step of the group that takes longest, or nothing if none takes time.
  std::optional<std::size_t> costliest(Bottleneck group) const;

  // host_changes.cpp
  bool fewer_workers();
  void workers();
  void prefetch();
  void cache();
  void read_ahead();
  void smaller_samples();
  void crop_first();
  void convert();
  void contention();
  bool lacks_cores(unsigned needed) const;
  void cheaper_steps();
  void cores();

  // device_changes.cpp
  void device_transforms();
  bool is_all_measured() const;
  void pinning();
  void pipelining();
  void unused_fields();
  void wires();
  void pack(const WireChoice& choice);
  void send_files(const WireChoice& choice);
  void feature_cache();

  const Observations& observed_;
  const Situation& situation_;
  const PipelineModel& now_;
  double now_step_s_;
  double error_;
  std::vector<Change> found_;
};

}  // namespace slipstream
