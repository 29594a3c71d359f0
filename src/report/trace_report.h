#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/trace.h"

namespace slipstream {

/// What a trace is of, as it stands in its JSON under "otherData".
using TraceFacts = std::vector<std::pair<std::string, std::string>>;

/// What `trace` holds, in the format of Chrome's traces, which Perfetto opens: a row for each of
/// its rows, in four groups (loader, lanes, host, device); a slice for each event, "NAME #BATCH",
/// with batch and sample as arguments; and arrows (flows) from each slab to the steps of its batch
/// on the lanes, in their order. Times are us since the first event. Bytes of names that are not
/// UTF-8 are replaced. REQUIRES: nothing is recorded meanwhile
std::string trace_json(const TraceRecorder& trace, const TraceFacts& facts);

/// `text` in the format of gzip.
std::string gzipped(std::string_view text);

/// What one lane did in the traced time. busy + waiting is that time.
struct LaneUse {
  std::string name;
  std::int64_t busy_ns = 0;
  std::int64_t waiting_ns = 0;
  std::int64_t overlapped_ns = 0;  ///< busy while another lane was too
};

/// A part of a critical path.
struct PathPart {
  std::string what;  ///< "STEP #BATCH", or "waiting"
  std::int64_t ns = 0;
};

/// What made one step take as long as it did: from the end of the step before, walked back through
/// whatever finished last of what each thing waited for. The parts' times add up to `ns`.
struct CriticalPath {
  std::uint64_t batch = 0;
  std::int64_t ns = 0;          ///< between the ends of the step before and this one
  std::vector<PathPart> parts;  ///< in the order in which each first appears
};

/// The critical path of a step of typical length that ended before `end_ns`.
std::optional<CriticalPath> critical_path(const TraceRecorder& trace, std::int64_t end_ns);

struct TraceSummary {
  std::int64_t ns = 0;  ///< from the first begin to the last end on a lane, or up to `full`
  std::vector<LaneUse> lanes;
  std::size_t workers = 0;
  double worker_busy_share = 0;  ///< mean of the workers
  std::size_t streams = 0;
  double stream_busy_share = 0;  ///< a kernel or a copy was on at least one stream
  /// Of a step of typical length, behind the first fifth; none of a single step.
  std::optional<CriticalPath> path;
  std::vector<std::string> full;  ///< rows that had no room left, with how many events are missing
};

/// Where rows were full, only the time before the first event that is missing is looked at.
TraceSummary summarize_trace(const TraceRecorder& trace);

/// For a console: a line a lane, then the rest.
std::string trace_text(const TraceSummary& summary);

}  // namespace slipstream
