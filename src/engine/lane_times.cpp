#include "engine/lane_times.h"

namespace slipstream {

void LaneTimes::add(std::uint64_t step, std::span<const Mark* const> begin,
                    std::span<const Mark* const> end, std::vector<LaneResult>& lanes) {
  for (std::size_t lane = 0; lane < end.size(); ++lane) {
    const double busy_s = end[lane]->seconds_after(*begin[lane]);
    // Marks are reused, and only those of the previous batch are still valid. So times are summed
    // up from batch to batch instead of being measured from the start of the run.
    end_s_[lane] = previous_end_[lane] == nullptr
                       ? end[lane]->seconds_after(*begin[0])
                       : end_s_[lane] + end[lane]->seconds_after(*previous_end_[lane]);
    previous_end_[lane] = end[lane];
    LaneResult& result = lanes[lane];
    result.busy_s += busy_s;
    result.last_intervals.push_back({step, end_s_[lane] - busy_s, end_s_[lane]});
    if (result.last_intervals.size() > kKeptIntervals)
      result.last_intervals.erase(result.last_intervals.begin());
  }
}

}  // namespace slipstream
