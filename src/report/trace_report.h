#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/trace.h"

namespace slipstream {

/// Information on a trace that its JSON has under "otherData".
using TraceFacts = std::vector<std::pair<std::string, std::string>>;

/// Returns `trace` in the format of Chrome's traces, which Perfetto opens: its rows in four groups
/// (loader, lanes, host, device); a slice for each event, "NAME #BATCH", with batch and sample as
/// arguments; and arrows (flows) from each slab to the steps of its batch on the lanes, in order.
/// Times are in us since the first event. Bytes of names that are not UTF-8 are replaced.
/// REQUIRES: nothing is recorded meanwhile
std::string trace_json(const TraceRecorder& trace, const TraceFacts& facts);

/// Compresses `text` in the format of gzip.
std::string gzipped(std::string_view text);

/// Utilization of one lane in the traced time. busy + waiting is that time.
struct LaneUse {
  std::string name;
  std::int64_t busy_ns = 0;
  std::int64_t waiting_ns = 0;
  std::int64_t overlapped_ns = 0;  ///< busy at the same time as another lane
};

/// A part of a critical path.
struct PathPart {
  std::string what;  ///< "STEP #BATCH", or "waiting"
  std::int64_t ns = 0;
};

/// The critical path of one step: starting at its end, goes back through whatever finished last
/// before each activity could start, to the end of the step before. The parts' times add up to
/// `ns`.
struct CriticalPath {
  std::uint64_t batch = 0;
  std::int64_t ns = 0;          ///< time between the ends of the previous step and this one
  std::vector<PathPart> parts;  ///< in the order in which each first appears
};

/// Returns the critical path of a step of typical duration that ended before `end_ns`.
std::optional<CriticalPath> critical_path(const TraceRecorder& trace, std::int64_t end_ns);

struct TraceSummary {
  /// From the first begin to the last end on a lane, or to the first missing event.
  std::int64_t ns = 0;
  std::vector<LaneUse> lanes;
  std::size_t workers = 0;
  double worker_busy_share = 0;  ///< mean over the workers
  std::size_t streams = 0;
  double stream_busy_share = 0;  ///< share of time with a kernel or a copy on at least one stream
  /// The critical path of a step of typical duration after the first fifth; no value for a single
  /// step.
  std::optional<CriticalPath> path;
  std::vector<std::string> full;  ///< rows that became full, with the number of missing events
};

/// Summarizes a trace. If rows became full, only the time before the first missing event is used.
TraceSummary summarize_trace(const TraceRecorder& trace);

/// Returns text for a console: a line for each lane, then the rest.
std::string trace_text(const TraceSummary& summary);

}  // namespace slipstream
