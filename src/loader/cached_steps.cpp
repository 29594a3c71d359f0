#include "loader/cached_steps.h"

#include <algorithm>

#include "loader/slab_layout.h"
#include "slipstream/core/error.h"

namespace slipstream {
namespace {

using Problems = std::vector<std::string>;

void check_random(const std::string& after, const std::vector<NamedOp>& transforms,
                  Problems& problems) {
  std::string last = "decode";
  for (const NamedOp& transform : transforms) {
    if (transform.op.is_random()) {
      std::string problem = "cannot cache after '" + after + "': transform '" + transform.name;
      problem += "' is random, so its results differ from epoch to epoch; cache after '";
      problems.push_back(problem.append(last).append("' or before"));
      return;
    }
    last = transform.name;
    if (last == after) return;
  }
}

void copy(std::span<const CachedField> from, Sample& to) {
  for (std::size_t i = 0; i < from.size(); ++i) {
    to.fields[i].array.assign(from[i].value);
    to.fields[i].encoded = from[i].encoded;
  }
}

}  // namespace

void check_cache(const CacheOptions& options, const std::vector<NamedOp>& transforms,
                 std::size_t samples, Problems& problems) {
  Problems steps = step_names(transforms);
  steps.pop_back();  // the last step is "collate", and batches are not cached
  const auto step = std::find(steps.begin(), steps.end(), options.after);
  if (step == steps.end()) {
    problems.push_back(unknown_name("step to cache after", options.after, steps));
  } else if (step - steps.begin() > 1) {
    check_random(options.after, transforms, problems);
  }
  if (options.bytes < SampleCache::index_bytes(samples)) {
    problems.push_back("a cache of " + std::to_string(options.bytes) +
                       " bytes is too small even for its index of " +
                       std::to_string(SampleCache::index_bytes(samples)) +
                       ", 8 bytes for each sample: give more memory, or no cache");
  }
}

CachedSteps::CachedSteps(const SampleSteps& steps, std::size_t samples,
                         const DataLoaderOptions& options)
    : steps_(steps) {
  if (!options.cache || options.cut) return;
  cache_ = options.shared_samples;
  if (cache_ == nullptr)
    cache_ = std::make_shared<SampleCache>(samples, steps.stored().size(), *options.cache);
  next_step_ = steps.step_after(options.cache->after);
}

void CachedSteps::make(const SamplePosition& place, std::size_t first, SampleBuffers& buffers,
                       std::byte* slab, StepMeter& meter) {
  const std::size_t collate = steps_.collate_step();
  std::span<const CachedField> cached;
  if (cache_) cached = cache_->find(place.sample);
  if (!cached.empty() && next_step_ == collate)
    return steps_.collate(place, cached, buffers.canvas, slab, meter);
  if (!cached.empty()) {
    copy(cached, buffers.sample);
    steps_.run(next_step_, collate, place, buffers, meter);
  } else if (cache_ && cache_->is_filling()) {
    steps_.run(first, next_step_, place, buffers, meter, true);
    cache_->put(place.sample, buffers.sample);
    steps_.run(next_step_, collate, place, buffers, meter);
  } else {
    steps_.run(first, collate, place, buffers, meter);
  }
  steps_.collate(place, buffers, slab, meter);
}

}  // namespace slipstream
