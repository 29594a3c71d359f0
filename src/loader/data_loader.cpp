#include "slipstream/loader/data_loader.h"

#include <algorithm>
#include <limits>
#include <thread>
#include <utility>

#include "core/start_thread.h"
#include "datasets/read_chunk.h"
#include "loader/bad_samples.h"
#include "loader/cached_steps.h"
#include "loader/host_cache.h"
#include "loader/read_ring.h"
#include "loader/running_order.h"
#include "loader/sample_steps.h"
#include "loader/slab_layout.h"
#include "loader/slab_memory.h"
#include "loader/slab_ring.h"
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

/// What else cannot be done where images travel as files.
void check_jpeg(const DataLoaderOptions& options, std::vector<std::string>& problems) {
  if (!has_format(options.wire, Wire::jpeg)) return;
  if (options.decode.scaled) {
    problems.emplace_back(
        "images that travel as jpeg are decoded at their full size; turn scaled decoding off, "
        "or let them travel plain");
  }
  if (options.jpeg_bytes > kMostJpegBytes) {
    problems.push_back("jpeg_bytes is " + std::to_string(options.jpeg_bytes) + "; use at most " +
                       std::to_string(kMostJpegBytes));
  }
  if (options.cache && options.cache->after != "read") {
    problems.push_back("a cache after '" + options.cache->after +
                       "' holds pixels, but the images travel as jpeg; cache after 'read', or let "
                       "them travel plain");
  }
  if (options.cut && options.cut->after != "read" && options.cut->after != "collate") {
    problems.push_back("a cut after '" + options.cut->after +
                       "' caches pixels, but the images travel as jpeg; cut after 'read' or "
                       "'collate', or let them travel plain");
  }
}

SlabLayout checked_layout(const Dataset& dataset, const std::vector<NamedOp>& transforms,
                          const DataLoaderOptions& options) {
  std::vector<std::string> problems;
  SlabLayout layout = plan_slab(dataset, transforms, options, problems);
  if (options.num_workers == 0) problems.push_back("num_workers 0: give at least 1");
  if (options.prefetch_batches == 0) problems.push_back("prefetch_batches 0: give at least 1");
  if (options.held_batches == 0) problems.push_back("held_batches 0: the caller holds at least 1");
  const std::vector<NamedOp> host = on_host(transforms, options.on_device);
  if (options.cut) check_cut(*options.cut, host, problems);
  check_order(dataset.size(), options, problems);
  check_read_ahead(options.read_ahead, problems);
  check_cpus(options.cores, problems);
  if (options.cache && options.cache->after == "decode" && options.decode.scaled) {
    problems.push_back(
        "cannot cache after 'decode': whole images are cached, and scaled decoding would give "
        "other pixels for samples that found no room; cache after 'read', or turn scaled decoding "
        "off");
  }
  if (options.cache) check_cache(*options.cache, host, dataset.size(), problems);
  check_jpeg(options, problems);
  refuse(problems);
  const RunningOrder order(dataset.size(), options);
  if (options.first_batch / order.batches_per_epoch() > std::numeric_limits<std::uint32_t>::max()) {
    throw Refused("first batch " + std::to_string(options.first_batch) +
                  " lies behind the last epoch, 2^32 - 1");
  }
  return layout;
}

/// Where bad samples are skipped, files are decoded whole: a file that is damaged outside of what
/// the crop of one epoch reads would be bad in some epochs alone, and known in later ones.
DecodeOptions decode_options(const DataLoaderOptions& options) {
  DecodeOptions decode = options.decode;
  decode.partial &= options.on_bad_sample == OnBadSample::stop;
  return decode;
}

}  // namespace

class DataLoader::Impl {
 public:
  Impl(std::shared_ptr<const Dataset> dataset, std::vector<NamedOp> transforms,
       const DataLoaderOptions& options)
      : options_(options),
        steps_(dataset, on_host(transforms, options.on_device),
               checked_layout(*dataset, transforms, options), options.seed, decode_options(options),
               options.on_bad_sample),
        binding_(std::in_place, options_.cores),
        order_(dataset->size(), options),
        bad_(options.on_bad_sample, order_),
        cached_steps_(steps_, dataset->size(), options.cut ? std::nullopt : options.cache),
        first_step_(options_.cut ? steps_.step_behind(options_.cut->after) : 0),
        slabs_(is_whole() ? options.cut->items : options.prefetch_batches + options.held_batches,
               steps_.layout().bytes, options.memory),
        next_whole_(options.first_batch) {
    start();
    binding_.reset();
  }

  const SlabLayout& layout() const { return steps_.layout(); }
  std::size_t slabs() const { return slabs_.size(); }
  std::uint64_t batches_per_epoch() const { return order_.batches_per_epoch(); }
  bool ready() { return is_whole() || ring_->ready(); }

  HostBatch next() {
    SlabRing::Lent lent;
    if (is_whole()) {
      lent = {next_whole_, next_whole_ % slabs_.size(), slabs_.size(), 0};
      ++next_whole_;
    } else {
      lent = ring_->next();
    }
    return {lent.batch,    order_.epoch_of(lent.batch), lent.slab, slabs_[lent.slab], lent.filled,
            lent.blocked_s};
  }

  void release(const HostBatch& batch, const Mark* last_use) {
    if (!is_whole()) ring_->release({.batch = batch.number, .slab = batch.slab}, last_use);
  }

  std::vector<StepCounter> counters() const {
    std::vector<StepCounter> totals;
    for (const std::string& name : steps_.names()) totals.push_back({.name = name});
    for (const StepMeter& meter : meters_) meter.add_to(totals);
    if (read_ring_) read_ring_->add_to(totals);
    return totals;
  }

  std::vector<StepLaps> laps() const {
    std::vector<StepLaps> laps;
    for (const std::string& name : steps_.names()) laps.push_back({name, {}, {}});
    for (const StepMeter& meter : meters_) meter.add_to(laps);
    if (read_ring_) read_ring_->add_to(laps);
    return laps;
  }

  CacheCounters cache() const { return cached_steps_.counters(); }
  std::uint64_t decoded_images() const {
    std::uint64_t total = 0;
    for (const StepMeter& meter : meters_) total += meter.decoded_images();
    return total;
  }

  SkippedSamples skipped() const { return bad_.skipped(); }
  double blocked_s() const { return ring_ ? ring_->blocked_s() : 0; }

 private:
  /// Whether whole slabs are cached, so that no worker runs.
  bool is_whole() const { return first_step_ > steps_.collate_step(); }

  void start() {
    if (is_whole()) return fill_slabs(steps_, bad_, slabs_, options_.num_workers);
    if (options_.cut) {
      cached_ = cache_samples(steps_, bad_, options_.cut->items, first_step_, options_.num_workers);
    }
    ring_.emplace(slabs_, SlabRing::Options{options_.batch_size, options_.held_batches,
                                            options_.first_batch, options_.trace.get()});
    if (options_.read_ahead.reads > 0 && !options_.cut) {
      read_ring_.emplace(steps_, order_, bad_, cached_steps_,
                         ReadRing::Options{options_.read_ahead, options_.batch_size,
                                           options_.first_batch, options_.trace.get()});
    }
    start_workers();
  }

  void start_workers() {
    for (unsigned i = 0; i < options_.num_workers; ++i) {
      meters_.emplace_back(steps_.names().size(),
                           steps_.traced(options_.trace.get(), TraceRow::Kind::worker, i));
      buffers_.emplace_back(steps_.stored().size());
    }
    threads_.reserve(options_.num_workers);
    for (unsigned i = 0; i < options_.num_workers; ++i) {
      threads_.push_back(start_thread([this, i](std::stop_token stop) { work(stop, i); }));
    }
  }

  void work(const std::stop_token& stop, unsigned index) {
    const std::stop_callback wake(stop, [this] {
      ring_->stop();
      if (read_ring_) read_ring_->stop();
    });
    const ReadChunk chunk(options_.read_ahead.chunk_bytes);
    SlabRing::Worker worker;
    while (const auto ticket = ring_->take(worker)) {
      std::exception_ptr error;
      try {
        fill(*ticket, buffers_[index], meters_[index]);
      } catch (...) {
        error = std::current_exception();
      }
      ring_->finish(*ticket, std::move(error));
    }
  }

  void fill(const SlabRing::Ticket& ticket, SampleBuffers& buffers, StepMeter& meter) {
    if (!cached_.empty()) return fill_from_cache(ticket, buffers, meter);
    std::optional<ReadRing::Arrived> ahead;
    if (read_ring_) ahead = read_ring_->take(ticket.batch, ticket.position, buffers.sample);
    bad_.make_good(ticket.batch, ticket.position, [&](const SamplePlace& place) {
      const bool is_here = ahead && ahead->sample == place.sample;
      if (is_here && ahead->error) std::rethrow_exception(ahead->error);
      const std::size_t first = is_here && ahead->is_read ? 1 : 0;
      cached_steps_.make(place, first, buffers, ticket.slab, meter);
    });
  }

  void fill_from_cache(const SlabRing::Ticket& ticket, SampleBuffers& buffers,
                       StepMeter& meter) const {
    SamplePlace place = order_.at(ticket.batch, ticket.position);
    const CachedSample& cached =
        cached_[(ticket.batch * options_.batch_size + ticket.position) % cached_.size()];
    place.sample = cached.id;
    place.occurrence = cached.occurrence;
    if (first_step_ == steps_.collate_step()) {
      steps_.collate(place, cached.sample, buffers.canvas, ticket.slab, meter);
      return;
    }
    copy_sample(cached.sample, buffers.sample);
    steps_.run(first_step_, steps_.collate_step(), place, buffers, meter);
    steps_.collate(place, buffers, ticket.slab, meter);
  }

  const DataLoaderOptions options_;
  const SampleSteps steps_;
  std::optional<CpuBinding> binding_;  ///< of the constructing thread, which starts all others
  const RunningOrder order_;
  BadSamples bad_;
  CachedSteps cached_steps_;
  const std::size_t first_step_;
  const SlabMemory slabs_;
  std::vector<CachedSample> cached_;
  std::uint64_t next_whole_;
  std::vector<StepMeter> meters_;
  std::vector<SampleBuffers> buffers_;
  std::optional<SlabRing> ring_;
  std::optional<ReadRing> read_ring_;
  std::vector<std::jthread> threads_;  // last: joined before what they use is gone
};

DataLoader::DataLoader(std::shared_ptr<const Dataset> dataset, std::vector<NamedOp> transforms,
                       DataLoaderOptions options)
    : impl_(std::make_unique<Impl>(std::move(dataset), std::move(transforms), options)) {}

DataLoader::~DataLoader() = default;

const SlabLayout& DataLoader::layout() const { return impl_->layout(); }
std::size_t DataLoader::slabs() const { return impl_->slabs(); }
std::uint64_t DataLoader::batches_per_epoch() const { return impl_->batches_per_epoch(); }
bool DataLoader::ready() { return impl_->ready(); }
HostBatch DataLoader::next() { return impl_->next(); }
void DataLoader::release(const HostBatch& batch, const Mark* last_use) {
  impl_->release(batch, last_use);
}
std::vector<StepCounter> DataLoader::counters() const { return impl_->counters(); }
std::vector<StepLaps> DataLoader::laps() const { return impl_->laps(); }
CacheCounters DataLoader::cache() const { return impl_->cache(); }
double DataLoader::blocked_s() const { return impl_->blocked_s(); }
std::uint64_t DataLoader::decoded_images() const { return impl_->decoded_images(); }
SkippedSamples DataLoader::skipped() const { return impl_->skipped(); }

}  // namespace slipstream
