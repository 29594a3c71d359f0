#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "report/report.h"
#include "slipstream/engine/pipeline.h"

namespace slipstream {

/// How the learning rate changes during a training, as the user specifies it.
struct ScheduleSettings {
  std::string schedule = "constant";
  std::optional<double> warmup_epochs, step_size, gamma, lr_min;
  std::optional<std::uint64_t> warmup_steps;

  /// Returns the pipeline with the schedule for a training of `steps` steps in total, and adds the
  /// schedule to `info.options`. Throws Refused if settings contradict each other or have no
  /// effect.
  Pipeline applied(Pipeline pipeline, std::uint64_t steps, WorkloadInfo& info) const;

 private:
  bool is_given() const;
};

}  // namespace slipstream
