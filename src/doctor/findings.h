#pragma once

#include <optional>
#include <string>
#include <vector>

#include "doctor/training_rate.h"

namespace slipstream {

/// A sentence, where steps on some of the cached batches take longer than on others, beyond what
/// steps on one of them differ by.
std::optional<std::string> depends_on_data(const std::vector<std::vector<double>>& seconds_by_item);

/// A sentence, where the step itself is slower while workers are busy.
std::optional<std::string> slowdown_with_workers(const TrainingRate& alone,
                                                 const TrainingRate& beside);

/// A sentence, where a loss is infinite or not a number.
std::optional<std::string> diverges(const RunResult& result);

/// A sentence, where bad samples were left out.
std::optional<std::string> skips(const RunResult& result);

/// A sentence, where other processes hold contexts on the GPU; `processes`: all that do.
std::optional<std::string> shares_gpu(std::optional<unsigned> processes);

/// A sentence, where a stage wrote into its input.
std::optional<std::string> writes_into_input(const RunResult& result);

}  // namespace slipstream
