#pragma once

#include <optional>
#include <string>
#include <vector>

#include "doctor/training_rate.h"

namespace slipstream {

// Each function returns a warning, in a sentence, or nothing if there is no reason for one.

/// Warns if steps on some of the cached batches take longer than on others, and the difference is
/// larger than between steps on the same batch.
std::optional<std::string> depends_on_data(const std::vector<std::vector<double>>& seconds_by_item);

/// Warns if the training step is slower while workers are busy.
std::optional<std::string> slowdown_with_workers(const TrainingRate& alone,
                                                 const TrainingRate& beside);

/// Warns if a loss is infinite or NaN.
std::optional<std::string> diverges(const RunResult& result);

/// Warns if bad samples were skipped.
std::optional<std::string> skips(const RunResult& result);

/// Warns if other processes have contexts on the GPU. `processes`: their number with this one.
std::optional<std::string> shares_gpu(std::optional<unsigned> processes);

/// Warns if a stage wrote into its input.
std::optional<std::string> writes_into_input(const RunResult& result);

}  // namespace slipstream
