#include <limits>

#include "core/figures.h"
#include "core/number_text.h"
#include "doctor/wording.h"
#include "report/trace_index.h"
#include "report/trace_report.h"

namespace slipstream {
namespace {

struct Span {
  std::int64_t begin_ns = 0;
  std::int64_t end_ns = 0;
};
using Spans = std::vector<Span>;

/// Sorts spans and merges those that touch.
Spans merged(Spans spans) {
  std::sort(spans.begin(), spans.end(),
            [](const Span& a, const Span& b) { return a.begin_ns < b.begin_ns; });
  Spans result;
  for (const Span& span : spans) {
    if (result.empty() || span.begin_ns > result.back().end_ns)
      result.push_back(span);
    else
      result.back().end_ns = std::max(result.back().end_ns, span.end_ns);
  }
  return result;
}

Spans clip_spans(const std::vector<const TraceRow*>& rows, const Span& window) {
  Spans spans;
  for (const TraceRow* row : rows)
    for (const TraceEvent& event : row->events()) {
      const Span span{std::max(event.begin_ns, window.begin_ns),
                      std::min(event.end_ns, window.end_ns)};
      if (span.begin_ns < span.end_ns) spans.push_back(span);
    }
  return merged(std::move(spans));
}

std::int64_t total_length(const Spans& spans) {
  std::int64_t ns = 0;
  for (const Span& span : spans) ns += span.end_ns - span.begin_ns;
  return ns;
}

/// Returns the total length of the intersection of two merged lists.
std::int64_t common_length(const Spans& a, const Spans& b) {
  std::int64_t ns = 0;
  for (std::size_t i = 0, k = 0; i < a.size() && k < b.size();) {
    const std::int64_t begin = std::max(a[i].begin_ns, b[k].begin_ns);
    const std::int64_t end = std::min(a[i].end_ns, b[k].end_ns);
    ns += std::max<std::int64_t>(0, end - begin);
    a[i].end_ns < b[k].end_ns ? ++i : ++k;
  }
  return ns;
}

Span traced_window(const TraceRecorder& trace) {
  Span window{std::numeric_limits<std::int64_t>::max(), std::numeric_limits<std::int64_t>::min()};
  for (const TraceRow* lane : find_rows(trace, TraceRow::Kind::lane))
    for (const TraceEvent& event : lane->events()) {
      window.begin_ns = std::min(window.begin_ns, event.begin_ns);
      window.end_ns = std::max(window.end_ns, event.end_ns);
    }
  for (const TraceRow* row : trace.rows())
    if (row->dropped() > 0) window.end_ns = std::min(window.end_ns, row->dropped_from_ns());
  return window.begin_ns < window.end_ns ? window : Span{};
}

std::vector<LaneUse> summarize_lanes(const std::vector<const TraceRow*>& lanes,
                                     const Span& window) {
  std::vector<LaneUse> uses;
  for (const TraceRow* lane : lanes) {
    std::vector<const TraceRow*> others = lanes;
    std::erase(others, lane);
    const Spans own = clip_spans({lane}, window);
    LaneUse& use = uses.emplace_back();
    use.name = lane->name();
    use.busy_ns = total_length(own);
    use.waiting_ns = window.end_ns - window.begin_ns - use.busy_ns;
    use.overlapped_ns = common_length(own, clip_spans(others, window));
  }
  return uses;
}

double mean_busy_share(const std::vector<const TraceRow*>& rows, const Span& window) {
  std::int64_t busy_ns = 0;
  for (const TraceRow* row : rows) busy_ns += total_length(clip_spans({row}, window));
  const std::int64_t ns = window.end_ns - window.begin_ns;
  if (rows.empty() || ns == 0) return 0;
  return static_cast<double>(busy_ns) / static_cast<double>(ns) / static_cast<double>(rows.size());
}

std::string ms(std::int64_t ns) {
  const double value = static_cast<double>(ns) * 1e-6;
  return fixed(value, std::min(3, decimals_for(value, 3))) + " ms";
}

std::string percentage(std::int64_t part, std::int64_t whole) {
  return whole_percent(whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : 0);
}

std::string path_text(const CriticalPath& path) {
  std::string text =
      "critical path of step " + std::to_string(path.batch) + ", " + ms(path.ns) + ":\n";
  std::vector<std::vector<std::string>> rows;
  for (const PathPart& part : path.parts)
    rows.push_back({"  " + part.what, ms(part.ns), percentage(part.ns, path.ns)});
  return text + aligned_table(rows, {1, 2});
}

}  // namespace

TraceSummary summarize_trace(const TraceRecorder& trace) {
  const Span window = traced_window(trace);
  TraceSummary summary;
  summary.ns = window.end_ns - window.begin_ns;
  summary.lanes = summarize_lanes(find_rows(trace, TraceRow::Kind::lane), window);
  const auto workers = find_rows(trace, TraceRow::Kind::worker);
  summary.workers = workers.size();
  summary.worker_busy_share = mean_busy_share(workers, window);
  const auto streams = find_rows(trace, TraceRow::Kind::stream);
  summary.streams = streams.size();
  if (summary.ns > 0)
    summary.stream_busy_share = static_cast<double>(total_length(clip_spans(streams, window))) /
                                static_cast<double>(summary.ns);
  summary.path = critical_path(trace, window.end_ns);
  for (const TraceRow* row : trace.rows())
    if (row->dropped() > 0)
      summary.full.push_back(row->name() + ": " + format_count(row->dropped(), "event") +
                             " not recorded");
  return summary;
}

std::string trace_text(const TraceSummary& summary) {
  std::vector<std::vector<std::string>> rows = {
      {"lane", "busy", "", "waiting", "", "overlapped", ""}};
  for (const LaneUse& lane : summary.lanes)
    rows.push_back({lane.name, ms(lane.busy_ns), percentage(lane.busy_ns, summary.ns),
                    ms(lane.waiting_ns), percentage(lane.waiting_ns, summary.ns),
                    ms(lane.overlapped_ns), percentage(lane.overlapped_ns, summary.ns)});
  std::string text = aligned_table(rows, {1, 2, 3, 4, 5, 6});
  if (summary.workers > 0)
    text += "loader: " + format_count(summary.workers, "worker") + ", busy " +
            whole_percent(summary.worker_busy_share) + " of the time\n";
  if (summary.streams > 0)
    text += "device: kernels and copies on " + format_count(summary.streams, "stream") +
            ", at least one of them busy " + whole_percent(summary.stream_busy_share) +
            " of the time\n";
  if (summary.path) text += path_text(*summary.path);
  for (const std::string& row : summary.full) text += "full: " + row + "\n";
  if (!summary.full.empty())
    text += "these numbers cover only the " + ms(summary.ns) +
            " before the first missing event; trace fewer steps\n";
  return text;
}

}  // namespace slipstream
