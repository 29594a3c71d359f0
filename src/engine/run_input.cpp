#include "engine/run_input.h"

#include <algorithm>

#include "engine/input_wait.h"

namespace slipstream {
namespace {

template <typename T>
std::optional<T> since(std::optional<T> counted, const std::optional<T>& before) {
  if (counted && before) counted->subtract(*before);
  return counted;
}

}  // namespace

RunInput::Source RunInput::source_for(const Plan& plan, const RunOptions& options,
                                      const RunHooks& hooks, const std::vector<LaneBinding>& lanes,
                                      std::uint64_t position) {
  const LaneBinding& first = lanes.front();
  if (first.steps.front().kind != DeviceStep::Kind::copy) return {};
  std::optional<HostCut> cut;
  if (options.cut) cut = HostCut{options.cut->after, options.cut->items};
  DataLoaderOptions wanted = bound_.loader_options(plan, cut);
  if (!cut) wanted.trace = hooks.trace;
  if (loader_ != nullptr && wanted == options_ && position_ == position)
    return {loader_.get(), so_far()};
  loader_.reset();
  Counted none;
  none.disk_cache = disk_cache_state(*bound_.pipeline.dataset());
  loader_ = bound_.make_loader(wanted, position);
  options_ = std::move(wanted);
  position_ = position;
  slab_marks_.resize(loader_->slabs());
  for (auto& mark : slab_marks_) mark = first.lane->make_mark();
  // Its workers may have counted already, for this run.
  none.counters.resize(loader_->counters().size());
  none.jpeg = jpeg_.so_far();
  return {loader_.get(), std::move(none)};
}

RunInput::Counted RunInput::so_far() const {
  Counted counted = {.blocked_s = loader_->blocked_s(),
                     .counters = loader_->counters(),
                     .skipped_positions = loader_->skipped().replacements,
                     .jpeg = jpeg_.so_far(),
                     .disk_cache = disk_cache_state(*bound_.pipeline.dataset())};
  if (options_.cache && !options_.cut) counted.cache = loader_->cache();
  return counted;
}

void RunInput::count(const Source& source, const Plan& plan, RunResult& result) const {
  const Counted& before = source.before;
  const Counted now = source.loader != nullptr ? so_far() : Counted{};
  result.input_wait_share =
      input_wait_share(now.blocked_s - before.blocked_s, result.lanes.back().busy_s, result.wall_s);
  result.counters = now.counters;
  for (std::size_t i = 0; i < result.counters.size(); ++i)
    result.counters[i].subtract(before.counters[i]);
  if (loader_ != nullptr) result.skipped = loader_->skipped();
  result.skipped.replacements -= std::min(result.skipped.replacements, before.skipped_positions);
  if (loader_ != nullptr && jpeg_.has_unpacker_for(plan))
    result.jpeg = JpegResult{now.jpeg.images - before.jpeg.images,
                             now.jpeg.on_cpu - before.jpeg.on_cpu, now.jpeg.engines};
  result.cache = since(now.cache, before.cache);
  result.disk_cache = since(now.disk_cache, before.disk_cache);
}

}  // namespace slipstream
