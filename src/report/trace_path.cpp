#include "report/trace_index.h"
#include "report/trace_report.h"

namespace slipstream {
namespace {

/// Maximum error between the order of GPU and host times after conversion to one clock.
constexpr std::int64_t kClocksApartNs = 50'000;

struct Node {
  const TraceRow* row = nullptr;
  std::size_t index = 0;

  const TraceEvent& event() const { return row->events()[index]; }
};

class PathFinder {
 public:
  explicit PathFinder(const TraceRecorder& trace) : lanes_(find_rows(trace, TraceRow::Kind::lane)) {
    for (const TraceRow* lane : lanes_) batches_.push_back(events_by_batch(*lane));
    for (const TraceRow* worker : find_rows(trace, TraceRow::Kind::worker)) index_worker(*worker);
    for (const TraceRow* reader : find_rows(trace, TraceRow::Kind::reader))
      for (std::size_t i = 0; i < reader->events().size(); ++i) {
        const TraceEvent& event = reader->events()[i];
        reads_[{event.batch, event.sample}] = {reader, i};
      }
  }

  std::optional<CriticalPath> path(std::int64_t end_ns) const {
    const auto batch = typical_batch(end_ns);
    if (!batch) return std::nullopt;
    const Node last = find_last(lanes_.size() - 1, *batch);
    const std::int64_t begin_ns = find_last(lanes_.size() - 1, *batch - 1).event().end_ns;
    return walk(last, *batch, begin_ns);
  }

 private:
  using SampleId = std::pair<std::uint64_t, std::uint64_t>;  ///< batch, sample

  void index_worker(const TraceRow& worker) {
    for (const auto& [batch, range] : events_by_batch(worker)) {
      Node& last = filled_[batch];
      const Node mine{&worker, range.last};
      if (last.row == nullptr || last.event().end_ns < mine.event().end_ns) last = mine;
    }
  }

  Node find_last(std::size_t lane, std::uint64_t batch) const {
    return {lanes_[lane], batches_[lane].at(batch).last};
  }

  std::optional<std::uint64_t> typical_batch(std::int64_t end_ns) const {
    if (lanes_.empty()) return std::nullopt;
    std::vector<std::pair<std::int64_t, std::uint64_t>> lengths;
    const std::size_t last = lanes_.size() - 1;
    const auto& batches = batches_[last];
    const std::size_t skipped = batches.size() / 5;
    std::size_t place = 0;
    for (const auto& [batch, range] : batches) {
      const bool is_steady = place++ >= std::max<std::size_t>(1, skipped);
      if (!is_steady || !batches.contains(batch - 1)) continue;
      const std::int64_t end = lanes_[last]->events()[range.last].end_ns;
      if (end <= end_ns)
        lengths.emplace_back(end - find_last(last, batch - 1).event().end_ns, batch);
    }
    if (lengths.empty()) return std::nullopt;
    std::sort(lengths.begin(), lengths.end());
    return lengths[lengths.size() / 2].second;
  }

  CriticalPath walk(Node node, std::uint64_t batch, std::int64_t begin_ns) const {
    CriticalPath path{batch, node.event().end_ns - begin_ns, {}};
    std::int64_t at_ns = node.event().end_ns;
    const auto advance_to = [&](std::int64_t ns, const std::string& what) {
      ns = std::clamp(ns, begin_ns, at_ns);
      add(path, what, at_ns - ns);
      at_ns = ns;
    };
    while (at_ns > begin_ns) {
      advance_to(node.event().begin_ns, event_label(*node.row, node.event()));
      const Node before = predecessor(node);
      advance_to(before.row == nullptr ? begin_ns : before.event().end_ns, "waiting");
      node = before;
    }
    std::reverse(path.parts.begin(), path.parts.end());
    return path;
  }

  static void add(CriticalPath& path, const std::string& what, std::int64_t ns) {
    if (ns <= 0) return;
    const auto known = std::find_if(path.parts.begin(), path.parts.end(),
                                    [&](const PathPart& part) { return part.what == what; });
    if (known == path.parts.end())
      path.parts.push_back({what, ns});
    else
      known->ns += ns;
  }

  /// Returns whatever finished last of all that `node` waited for. Waiting for its slot is ignored,
  /// because the previous batch in the slot ended before the step of this path.
  Node predecessor(const Node& node) const {
    std::vector<Node> candidates;
    if (node.index > 0) candidates.push_back({node.row, node.index - 1});
    if (node.row->kind() == TraceRow::Kind::lane)
      add_before_lane(node, candidates);
    else
      add_found(reads_, SampleId{node.event().batch, node.event().sample}, candidates);
    Node latest;
    for (const Node& candidate : candidates) {
      const TraceEvent& event = candidate.event();
      // Times of two clocks may be slightly out of order. What began later cannot have been waited
      // for.
      if (event.begin_ns >= node.event().begin_ns) continue;
      if (event.end_ns > node.event().begin_ns + kClocksApartNs) continue;
      if (latest.row == nullptr || event.end_ns > latest.event().end_ns) latest = candidate;
    }
    return latest;
  }

  void add_before_lane(const Node& node, std::vector<Node>& candidates) const {
    const auto place = std::find(lanes_.begin(), lanes_.end(), node.row);
    const auto lane = static_cast<std::size_t>(place - lanes_.begin());
    const std::uint64_t batch = node.event().batch;
    if (batches_[lane].at(batch).first != node.index) return;
    if (lane == 0)
      add_found(filled_, batch, candidates);
    else if (batches_[lane - 1].contains(batch))
      candidates.push_back(find_last(lane - 1, batch));
  }

  template <typename Key>
  static void add_found(const std::map<Key, Node>& nodes, const Key& key,
                        std::vector<Node>& candidates) {
    const auto found = nodes.find(key);
    if (found != nodes.end()) candidates.push_back(found->second);
  }

  const std::vector<const TraceRow*> lanes_;
  std::vector<std::map<std::uint64_t, EventRange>> batches_;  ///< [lane]
  std::map<std::uint64_t, Node> filled_;  ///< the event that completed each slab
  std::map<SampleId, Node> reads_;
};

}  // namespace

std::optional<CriticalPath> critical_path(const TraceRecorder& trace, std::int64_t end_ns) {
  return PathFinder(trace).path(end_ns);
}

}  // namespace slipstream
