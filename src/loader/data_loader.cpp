#include "slipstream/loader/data_loader.h"

#include <map>
#include <thread>
#include <utility>

#include "core/start_thread.h"
#include "core/sync.h"
#include "datasets/read_chunk.h"
#include "loader/bad_samples.h"
#include "loader/cached_steps.h"
#include "loader/checked_layout.h"
#include "loader/host_cache.h"
#include "loader/partial_decoding.h"
#include "loader/read_ring.h"
#include "loader/running_order.h"
#include "loader/sample_steps.h"
#include "loader/slab_layout.h"
#include "loader/slab_memory.h"
#include "loader/slab_ring.h"

namespace slipstream {
namespace {

/// Returns true if code on the device works on whole slabs, so that all their positions must be
/// filled.
bool fills_up(const DataLoaderOptions& options) {
  return options.fills_up || options.on_device > 0 || !options.batch_ops.empty() ||
         !options.wire.empty();
}

}  // namespace

class DataLoader::Impl {
 public:
  Impl(std::shared_ptr<const Dataset> dataset, std::vector<NamedOp> transforms,
       const DataLoaderOptions& options)
      : options_(options),
        steps_(dataset, on_host(transforms, options.on_device),
               checked_layout(*dataset, transforms, options), options.seed,
               decode_options(options)),
        binding_(std::in_place, options_.cpus),
        order_(dataset->size(), options),
        bad_(options.on_bad_sample, order_),
        cached_steps_(steps_, dataset->size(), options),
        first_step_(options_.cut ? steps_.step_after(options_.cut->after) : 0),
        slabs_(
            is_filled_once() ? options.cut->items : options.prefetch_batches + options.held_batches,
            steps_.layout().bytes, options.memory),
        next_whole_(options.first_batch) {
    start();
    // The constructor's thread gets its own CPUs back; only the loader's threads stay bound.
    binding_.reset();
  }

  const SlabLayout& layout() const { return steps_.layout(); }
  std::size_t slabs() const { return slabs_.size(); }
  std::uint64_t batches_per_epoch() const { return order_.batches_per_epoch(); }
  void notify_added() {
    if (ring_) ring_->notify_added();
  }
  bool ready() { return is_filled_once() || ring_->ready(); }

  HostBatch next() {
    SlabRing::LentSlab lent;
    if (is_filled_once()) {
      lent = {next_whole_, next_whole_ % slabs_.size(), slabs_.size(), 0};
      ++next_whole_;
    } else {
      lent = ring_->next();
    }
    return {lent.batch,     order_.epoch_at(lent.batch), lent.slab, slabs_[lent.slab], lent.filled,
            lent.blocked_s, take_stand_ins(lent.batch)};
  }

  void release(const HostBatch& batch, const Mark* last_use) {
    if (!is_filled_once()) ring_->release({.batch = batch.number, .slab = batch.slab}, last_use);
  }

  std::shared_ptr<const std::byte> memory(const HostBatch& batch) const {
    return slabs_.shared(batch.slab);
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
  SkippedSamples skipped() const {
    SkippedSamples skipped = bad_.skipped();
    skipped.tolerated = steps_.tolerated();
    return skipped;
  }
  double blocked_s() const { return ring_ ? ring_->blocked_s() : 0; }

 private:
  /// Returns true if whole batches are cached, in which case no worker runs.
  bool is_filled_once() const { return first_step_ > steps_.collate_step(); }

  void start() {
    if (is_filled_once()) return fill_slabs(steps_, bad_, slabs_, options_.num_workers);
    if (options_.cut) {
      cached_ = cache_samples(steps_, bad_, options_.cut->items, first_step_, options_.num_workers);
    }
    ring_.emplace(slabs_, SlabRing::Options{options_.batch_size, options_.held_batches,
                                            options_.first_batch, options_.trace.get(),
                                            options_.batches.get(), fills_up(options_)});
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
    std::optional<ReadRing::FetchResult> ahead;
    if (read_ring_) ahead = read_ring_->take(ticket.batch, ticket.position, buffers.sample);
    const auto make = [&](const SamplePosition& place) {
      const bool is_here = ahead && ahead->sample == place.sample;
      if (is_here && ahead->error) std::rethrow_exception(ahead->error);
      const std::size_t first = is_here && ahead->is_read ? 1 : 0;
      cached_steps_.make(place, first, buffers, ticket.slab, meter);
    };
    if (!bad_.make_good(ticket.batch, ticket.position, make)) return;
    const Lock lock(mutex_);
    stand_ins_[ticket.batch].push_back(ticket.position);
  }

  std::vector<std::size_t> take_stand_ins(std::uint64_t batch) SLIPSTREAM_EXCLUDES(mutex_) {
    if (!bad_.skips()) return {};
    const Lock lock(mutex_);
    const auto found = stand_ins_.extract(batch);
    return found.empty() ? std::vector<std::size_t>{} : found.mapped();
  }

  void fill_from_cache(const SlabRing::Ticket& ticket, SampleBuffers& buffers,
                       StepMeter& meter) const {
    SamplePosition place = order_.at(ticket.batch, ticket.position);
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
  /// Binds the constructing thread, whose CPUs all threads started by it inherit.
  std::optional<CpuBinding> binding_;
  const RunningOrder order_;
  BadSamples bad_;
  CachedSteps cached_steps_;
  const std::size_t first_step_;
  const SlabMemory slabs_;
  std::vector<CachedSample> cached_;
  std::uint64_t next_whole_;
  std::vector<StepMeter> meters_;
  std::vector<SampleBuffers> buffers_;
  Mutex mutex_;
  /// For each batch, the positions at which a bad sample was replaced.
  std::map<std::uint64_t, std::vector<std::size_t>> stand_ins_ SLIPSTREAM_GUARDED_BY(mutex_);
  std::optional<SlabRing> ring_;
  std::optional<ReadRing> read_ring_;
  // Declared last, so that the threads are joined before the members that they use are destroyed.
  std::vector<std::jthread> threads_;
};

DataLoader::DataLoader(std::shared_ptr<const Dataset> dataset, std::vector<NamedOp> transforms,
                       DataLoaderOptions options)
    : impl_(std::make_unique<Impl>(std::move(dataset), std::move(transforms), options)) {}

DataLoader::~DataLoader() = default;

const SlabLayout& DataLoader::layout() const { return impl_->layout(); }
std::size_t DataLoader::slabs() const { return impl_->slabs(); }
std::uint64_t DataLoader::batches_per_epoch() const { return impl_->batches_per_epoch(); }
void DataLoader::notify_added() { impl_->notify_added(); }
bool DataLoader::ready() { return impl_->ready(); }
HostBatch DataLoader::next() { return impl_->next(); }
void DataLoader::release(const HostBatch& batch, const Mark* last_use) {
  impl_->release(batch, last_use);
}
std::shared_ptr<const std::byte> DataLoader::memory(const HostBatch& batch) const {
  return impl_->memory(batch);
}
std::vector<StepCounter> DataLoader::counters() const { return impl_->counters(); }
std::vector<StepLaps> DataLoader::laps() const { return impl_->laps(); }
CacheCounters DataLoader::cache() const { return impl_->cache(); }
double DataLoader::blocked_s() const { return impl_->blocked_s(); }
SkippedSamples DataLoader::skipped() const { return impl_->skipped(); }

}  // namespace slipstream
