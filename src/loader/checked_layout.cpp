#include "loader/checked_layout.h"

#include <algorithm>
#include <limits>

#include "loader/cached_steps.h"
#include "loader/read_ring.h"
#include "loader/running_order.h"
#include "loader/slab_layout.h"
#include "slipstream/core/error.h"

namespace slipstream {
namespace {

constexpr std::size_t kMostJpegBytes = std::size_t{1} << 30;

void check_cut(const HostCut& cut, const std::vector<NamedOp>& transforms,
               std::vector<std::string>& problems) {
  const std::vector<std::string> steps = step_names(transforms);
  if (std::find(steps.begin(), steps.end(), cut.after) == steps.end()) {
    problems.push_back(unknown_name("step to cut after", cut.after, steps));
  }
  if (cut.items == 0) problems.push_back("a cut needs at least 1 cached item");
}

/// Adds the options that cannot be combined with images that travel as JPEG files.
void check_jpeg(const DataLoaderOptions& options, std::vector<std::string>& problems) {
  if (!has_format(options.wire, Wire::jpeg)) return;
  if (options.decode.scaled) {
    problems.emplace_back(
        "images in the wire format jpeg are decoded at full size; turn scaled decoding off, or "
        "leave out this wire format");
  }
  if (options.jpeg_bytes > kMostJpegBytes) {
    problems.push_back("jpeg_bytes is " + std::to_string(options.jpeg_bytes) + "; use at most " +
                       std::to_string(kMostJpegBytes));
  }
  if (options.cache && options.cache->after != "read") {
    problems.push_back("a cache after '" + options.cache->after +
                       "' contains pixels, but the images have the wire format jpeg; cache after "
                       "'read', or leave out this wire format");
  }
  if (options.cut && options.cut->after != "read" && options.cut->after != "collate") {
    problems.push_back("a cut after '" + options.cut->after +
                       "' caches pixels, but the images have the wire format jpeg; cut after "
                       "'read' or 'collate', or leave out this wire format");
  }
}

/// Adds the options that need an order that can be computed.
void check_listed(const DataLoaderOptions& options, std::vector<std::string>& problems) {
  if (options.batches == nullptr) return;
  if (options.read_ahead.reads > 0)
    problems.emplace_back(
        "reading ahead needs an order that is known in advance; leave out the "
        "sampler, or read_ahead");
  if (options.cut) problems.emplace_back("a cut needs an order that is known in advance");
}

}  // namespace

SlabLayout checked_layout(const Dataset& dataset, const std::vector<NamedOp>& transforms,
                          const DataLoaderOptions& options) {
  std::vector<std::string> problems;
  SlabLayout layout = plan_slab(dataset, transforms, options, problems);
  if (options.num_workers == 0) problems.push_back("num_workers 0: give at least 1");
  if (options.prefetch_batches == 0) problems.push_back("prefetch_batches 0: give at least 1");
  if (options.held_batches == 0) problems.push_back("held_batches 0: give at least 1");
  const std::vector<NamedOp> host = on_host(transforms, options.on_device);
  if (options.cut) check_cut(*options.cut, host, problems);
  check_order(dataset.size(), options, problems);
  check_read_ahead(options.read_ahead, problems);
  check_cpus(options.cpus, problems);
  if (options.cache && options.cache->after == "decode" && options.decode.scaled) {
    problems.push_back(
        "cannot cache after 'decode': whole images are cached, and scaled decoding would give "
        "other pixels for samples that do not fit into the cache; cache after 'read', or turn "
        "scaled decoding off");
  }
  if (options.cache) check_cache(*options.cache, host, dataset.size(), problems);
  check_jpeg(options, problems);
  check_listed(options, problems);
  refuse(problems);
  if (options.batches != nullptr) return layout;
  const RunningOrder order(dataset.size(), options);
  if (options.first_batch / order.batches_per_epoch() > std::numeric_limits<std::uint32_t>::max()) {
    throw Refused("first batch " + std::to_string(options.first_batch) +
                  " is after the last epoch, 2^32 - 1");
  }
  return layout;
}

}  // namespace slipstream
