#pragma once

#include <cstdint>
#include <optional>

#include "report/report.h"
#include "training/fit.h"

namespace slipstream {

/// Prints an epoch and its scores as a line. `lr`: the learning rate of its last step.
void print_epoch(const EpochResult& epoch, std::optional<double> lr);

/// Prints the summary of a training of `steps` steps.
void print_summary(const RunReport& report, std::uint64_t steps);

/// Prints the last and the best value of each score. REQUIRES: at least one row
void print_scores(const std::vector<ScoreRow>& rows, const FitHistory& history,
                  const Pipeline& pipeline);

}  // namespace slipstream
