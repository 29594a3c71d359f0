#include "engine/device_feed.h"

#include <exception>
#include <utility>

namespace slipstream {
namespace {

template <typename T>
void subtract_earlier(std::optional<T>& counted, const std::optional<T>& earlier) {
  if (counted && earlier) counted->subtract(*earlier);
}

}  // namespace

void DeviceFeed::Counted::subtract(const Counted& earlier) {
  blocked_s -= earlier.blocked_s;
  for (std::size_t i = 0; i < counters.size(); ++i) counters[i].subtract(earlier.counters[i]);
  skipped_positions -= earlier.skipped_positions;
  if (jpeg && earlier.jpeg) {
    jpeg->images -= earlier.jpeg->images;
    jpeg->on_cpu -= earlier.jpeg->on_cpu;
  }
  subtract_earlier(cache, earlier.cache);
  subtract_earlier(disk_cache, earlier.disk_cache);
}

DeviceFeed::DeviceFeed(Context& context) : context_(context) {}

DeviceFeed::~DeviceFeed() { stop(); }

void DeviceFeed::prepare(const std::shared_ptr<const Dataset>& dataset,
                         const std::vector<NamedOp>& transforms, const DataLoaderOptions& options) {
  if (!has_format(options.wire, Wire::jpeg)) return;
  const SlabLayout layout = DataLoader::plan_layout(*dataset, transforms, options);
  if (unpacker_ != nullptr && unpacker_->fits(layout)) return;
  stop();  // the loader uses the unpacker that is replaced
  unpacker_.reset();
  JpegUnpacker::Options made;
  made.device = context_.device().index();
  made.memory = &memory_;
  made.decode = options.decode;
  made.name = [dataset](std::uint64_t sample) { return dataset->name(sample); };
  unpacker_ = std::make_unique<JpegUnpacker>(layout, std::move(made));
}

bool DeviceFeed::is_at(const DataLoaderOptions& options) const {
  if (loader_ == nullptr || has_failed_) return false;
  DataLoaderOptions here = options_;
  const bool began_there = here.cut && options.first_batch == here.first_batch;
  here.first_batch = began_there ? here.first_batch : next_;
  return here == options;
}

DeviceFeed::Counted DeviceFeed::seek(const std::shared_ptr<const Dataset>& dataset,
                                     const std::vector<NamedOp>& transforms,
                                     const DataLoaderOptions& options, Lane& lane) {
  if (is_at(options)) return counted();
  stop();
  prepare(dataset, transforms, options);
  // The disk cache counts through all loaders of the data set. It is read before the workers of the
  // new loader use it.
  Counted before{.disk_cache = disk_cache_state(*dataset)};
  has_failed_ = true;  // until the new loader is complete
  loader_ = std::make_unique<DataLoader>(dataset, transforms, options);
  dataset_ = dataset;
  options_ = options;
  next_ = options.first_batch;
  marks_.clear();
  is_recorded_.assign(loader_->slabs(), false);
  while (marks_.size() < loader_->slabs()) marks_.push_back(lane.make_untimed_mark());
  // The counters start at 0, not at the loader's current values: its workers may already have
  // counted work for the batches that follow.
  before.counters.resize(loader_->counters().size());
  // The unpacker may have served earlier loaders, so its counters do not start at 0.
  before.jpeg = counted().jpeg;
  has_failed_ = false;
  return before;
}

void DeviceFeed::stop() noexcept {
  if (loader_ == nullptr) return;
  for (std::size_t slab = 0; slab < marks_.size(); ++slab) try {
      // Slabs that were never copied have no recorded mark to wait for.
      if (is_recorded_[slab]) marks_[slab]->synchronize();
    } catch (const std::exception&) {
      // If the device is lost, no copy runs any more, so there is nothing to wait for.
    }
  loader_.reset();
}

DeviceFeed::Counted DeviceFeed::counted() const {
  Counted counted{.blocked_s = loader_->blocked_s(),
                  .counters = loader_->counters(),
                  .skipped_positions = loader_->skipped().replacements,
                  .disk_cache = disk_cache_state(*dataset_)};
  if (has_files())
    counted.jpeg = {unpacker_->images(), unpacker_->decoded_by_cpu(), unpacker_->uses_engines()};
  if (options_.cache && !options_.cut) counted.cache = loader_->cache();
  return counted;
}

HostBatch DeviceFeed::take() {
  has_failed_ = true;
  ++next_;
  HostBatch batch = loader_->next();
  has_failed_ = false;
  return batch;
}

void DeviceFeed::copy(const HostBatch& batch, DeviceSlab& slab, Lane& lane) {
  std::exception_ptr error;
  try {
    const SlabLayout& layout = loader_->layout();
    if (slab.fields.empty()) slab = DeviceSlab::make(layout, context_.device());
    copy_slab(slab, batch, layout, lane, has_files() ? unpacker_.get() : nullptr);
    slab.stand_ins = batch.stand_ins;
  } catch (...) {
    error = std::current_exception();
  }
  try {
    // The mark is recorded also after an error, because work that was enqueued before it still
    // reads the slab.
    Mark& mark = *marks_[batch.slab];
    lane.record(mark);
    is_recorded_[batch.slab] = true;
    loader_->release(batch, &mark);
  } catch (...) {
    if (!error) throw;
  }
  if (error) std::rethrow_exception(error);
}

}  // namespace slipstream
