#pragma once

#include <optional>
#include <string_view>

#include "slipstream/diagnosis.h"

namespace slipstream {

inline constexpr std::string_view kDeviceRung = "device batch";
inline constexpr std::string_view kHostRung = "host batch";  ///< of a CPU; of a GPU one of:
inline constexpr std::string_view kPinnedRung = "host batch, pinned";
inline constexpr std::string_view kPageableRung = "host batch, pageable";
inline constexpr std::string_view kProcessedRung = "processed sample";
inline constexpr std::string_view kWholeRung = "nothing cached";

/// Rate with training of the rung called `name`.
std::optional<Measured> rung_rate(const Observations& observed, std::string_view name);
/// The rung of host batches that are in memory as the plan's are.
std::string_view host_rung(const Observations& observed);

/// `model` with its first `steps` steps cached.
PipelineModel cut_behind(PipelineModel model, std::size_t steps);
void make_free(PipelineModel::Step& step);

/// As if batches were on the device already.
void take_copy_out(const Observations& observed, PipelineModel& model);

/// Relative, in the mean of squares, of the simulated rungs against the measured.
double model_error_of(const Observations& observed, const PipelineModel& model);

/// All changes that may help, with what each alone is predicted to give.
std::vector<Change> changes_for(const Observations& observed, const PipelineModel& now,
                                double model_error);

}  // namespace slipstream
