#pragma once

#include <optional>

#include "report/trace_report.h"

namespace slipstream {

/// Of a typical step that ended before `end_ns`.
std::optional<CriticalPath> critical_path(const TraceRecorder& trace, std::int64_t end_ns);

}  // namespace slipstream
