#include "loader/read_ring.h"

#include <utility>

#include "core/start_thread.h"
#include "datasets/read_chunk.h"
#include "slipstream/core/error.h"

namespace slipstream {
namespace {

constexpr unsigned kMostReads = 1024;
constexpr std::size_t kSmallestChunk = 4096;

}  // namespace

void check_read_ahead(const ReadAhead& options, std::vector<std::string>& problems) {
  if (options.reads > kMostReads) {
    problems.push_back(std::to_string(options.reads) + " reads in flight: give at most " +
                       std::to_string(kMostReads) + ", because each needs a thread");
  }
  if (options.chunk_bytes > 0 && options.chunk_bytes < kSmallestChunk) {
    problems.push_back("read requests of " + std::to_string(options.chunk_bytes) +
                       " bytes: give at least " + std::to_string(kSmallestChunk) +
                       ", or 0 for no limit");
  }
}

/// Empties a slot in its destructor, also if copying the sample throws.
class ReadRing::SlotRelease {
 public:
  SlotRelease(ReadRing& ring, std::uint64_t number) : ring_(ring), number_(number) {}
  ~SlotRelease() { ring_.empty(number_); }
  SlotRelease(const SlotRelease&) = delete;
  SlotRelease& operator=(const SlotRelease&) = delete;

 private:
  ReadRing& ring_;
  std::uint64_t number_;
};

ReadRing::ReadRing(const SampleSteps& steps, const RunningOrder& order, const BadSamples& bad,
                   const CachedSteps& cached, const Options& options)
    : steps_(steps),
      order_(order),
      bad_(bad),
      cached_(cached),
      options_(options),
      // Twice the number of reads, so that a reader can start the next sample while an earlier one
      // waits for its worker.
      raws_(2 * std::size_t{options.read_ahead.reads}),
      slots_(raws_.size()) {
  const unsigned reads = options.read_ahead.reads;
  {
    Lock lock(mutex_);
    for (std::size_t i = 0; i < slots_.size(); ++i) slots_[i].number = i;
  }
  for (unsigned i = 0; i < reads; ++i) {
    meters_.emplace_back(steps.names().size(),
                         steps.traced(options.trace, TraceRow::Kind::reader, i));
  }
  readers_.reserve(reads);
  for (unsigned i = 0; i < reads; ++i) {
    readers_.push_back(
        start_thread([this, i](std::stop_token stop) { read_on(stop, meters_[i]); }));
  }
}

ReadRing::FetchResult ReadRing::take(std::uint64_t batch, std::size_t position, Sample& to) {
  const std::uint64_t number = (batch - options_.first_batch) * options_.batch_size + position;
  wait_for(number);
  const SlotRelease taken(*this, number);
  Raw& from = raw(number);
  if (from.arrived.is_read) copy_sample(from.sample, to);
  return std::exchange(from.arrived, {});
}

void ReadRing::stop() {
  Lock lock(mutex_);
  stopped_ = true;
  can_begin_.notify_all();
  for (Slot& slot : slots_) slot.changed.notify_all();
}

void ReadRing::add_to(std::span<StepCounter> totals) const {
  for (const StepMeter& meter : meters_) meter.add_to(totals);
}

void ReadRing::add_to(std::span<StepLaps> laps) const {
  for (const StepMeter& meter : meters_) meter.add_to(laps);
}

void ReadRing::read_on(const std::stop_token& stop, StepMeter& meter) {
  const std::stop_callback wake(stop, [this] { this->stop(); });
  const ReadChunk chunk(options_.read_ahead.chunk_bytes);
  while (const auto number = begin()) {
    read(*number, meter);
    end(*number);
  }
}

std::optional<std::uint64_t> ReadRing::begin() {
  Lock lock(mutex_);
  while (!stopped_ && !can_begin()) can_begin_.wait(lock);
  if (stopped_) return std::nullopt;
  const std::uint64_t number = next_++;
  if (can_begin()) can_begin_.notify_one();
  return number;
}

void ReadRing::read(std::uint64_t number, StepMeter& meter) {
  const SamplePosition place =
      order_.at(options_.first_batch + number / options_.batch_size, number % options_.batch_size);
  Raw& to = raw(number);
  to.arrived.sample = place.sample;
  // The worker will not use these bytes, so they are not read.
  if (bad_.is_known(place.sample) || cached_.has(place.sample)) return;
  try {
    steps_.read(place, to.sample, meter);
    to.arrived.is_read = true;
  } catch (...) {
    to.arrived.error = std::current_exception();
  }
}

void ReadRing::end(std::uint64_t number) {
  Lock lock(mutex_);
  slot(number).has_arrived = true;
  slot(number).changed.notify_all();
}

void ReadRing::wait_for(std::uint64_t number) {
  Lock lock(mutex_);
  Slot& awaited = slot(number);
  while (!stopped_ && !(awaited.number == number && awaited.has_arrived)) {
    awaited.changed.wait(lock);
  }
  if (stopped_) throw Error("the loader was stopped");
}

void ReadRing::empty(std::uint64_t number) {
  Lock lock(mutex_);
  slot(number).has_arrived = false;
  slot(number).number += slots_.size();
  if (can_begin()) can_begin_.notify_one();
}

}  // namespace slipstream
