#include "loader/slab_ring.h"

#include <chrono>
#include <utility>

#include "core/seconds_since.h"
#include "slipstream/core/error.h"

namespace slipstream {

SlabRing::SlabRing(const SlabMemory& memory, const Options& options)
    : memory_(memory),
      options_(options),
      filling_(memory.size()),
      freed_(memory.size()),
      lent_slabs_(memory.size()),
      taking_(options.first_batch),
      next_(options.first_batch) {
  Lock lock(mutex_);
  for (std::size_t slab = 0; slab < memory.size(); ++slab) push_freed({slab, nullptr});
  if (options_.trace == nullptr) return;
  for (std::size_t slab = 0; slab < memory.size(); ++slab) {
    const std::string name = "batch buffer " + std::to_string(slab);
    traces_.emplace_back(*options_.trace,
                         options_.trace->row(TraceRow::Kind::slab, name, {"fill"}));
  }
}

std::optional<SlabRing::Ticket> SlabRing::take(Worker& worker) {
  while (true) {
    FreedSlab freed;
    {
      Lock lock(mutex_);
      while (!is_over() && !has_work()) sleep(worker, lock);
      if (is_over()) return std::nullopt;
      if (is_open_) {
        const Ticket ticket = issue();
        if (has_work()) wake_one();
        return ticket;
      }
      freed = pop_freed();
      is_opening_ = true;
    }
    // Waiting for the last use of a slab may take long, so it happens without the lock; is_opening_
    // keeps other workers from opening another slab.
    open(freed);
  }
}

void SlabRing::finish(const Ticket& ticket, std::exception_ptr error) {
  Lock lock(mutex_);
  ++filling(ticket.batch).finished;
  if (error) fail(ticket.batch, ticket.position, std::move(error));
  if (!traces_.empty()) trace_filled(ticket.batch);
  if (is_settled(ticket.batch)) settled_.notify_one();
}

void SlabRing::notify_added() {
  Lock lock(mutex_);
  if (can_open()) wake_one();
}

void SlabRing::stop() {
  Lock lock(mutex_);
  stopped_ = true;
  while (idle_ != nullptr) wake_one();
}

bool SlabRing::ready() {
  Lock lock(mutex_);
  return is_settled(next_);
}

SlabRing::LentSlab SlabRing::next() {
  Lock lock(mutex_);
  ensure(lent_count_ < options_.lent,
         "the caller holds at most DataLoaderOptions::held_batches batches");
  const std::size_t filled = count_settled();
  double blocked_s = 0;
  if (filled == 0) {
    const auto start = std::chrono::steady_clock::now();
    while (!is_settled(next_)) settled_.wait(lock);
    blocked_s = seconds_since(start);
    blocked_s_ += blocked_s;
  }
  if (failure_ && failure_->batch == next_) std::rethrow_exception(failure_->error);
  const LentSlab lent = {next_, filling(next_).slab, filled, blocked_s};
  ++next_;
  lent_slabs_[lent.slab] = lent.batch;
  ++lent_count_;
  return lent;
}

void SlabRing::release(const LentSlab& lent, const Mark* last_use) {
  Lock lock(mutex_);
  ensure(lent.slab < lent_slabs_.size() && lent_slabs_[lent.slab] == lent.batch,
         "only a batch that the caller has is released, and only once");
  lent_slabs_[lent.slab].reset();
  --lent_count_;
  push_freed({lent.slab, last_use});
  if (can_open()) wake_one();
}

double SlabRing::blocked_s() const {
  Lock lock(mutex_);
  return blocked_s_;
}

void SlabRing::sleep(Worker& worker, Lock& lock) {
  worker.is_woken_ = false;
  worker.next_ = std::exchange(idle_, &worker);
  // The flag distinguishes a real wake-up from a spurious one.
  while (!worker.is_woken_) worker.changed_.wait(lock);
}

void SlabRing::wake_one() {
  if (idle_ == nullptr) return;
  Worker& worker = *std::exchange(idle_, idle_->next_);
  worker.is_woken_ = true;
  worker.changed_.notify_one();
}

SlabRing::Filling& SlabRing::filling(std::uint64_t batch) {
  return filling_[batch % filling_.size()];
}

void SlabRing::trace_filled(std::uint64_t batch) {
  const Filling& filled = filling(batch);
  if (filled.finished < filled.samples) return;
  traces_[filled.slab].add({.batch = batch, .begin_ns = filled.begin_ns, .end_ns = trace_now_ns()});
}

bool SlabRing::can_open() const {
  const bool is_listed = options_.batches == nullptr || options_.batches->size() > taking_;
  return is_listed && !is_open_ && !is_opening_ && freed_count_ > 0;
}

std::size_t SlabRing::samples(std::uint64_t batch) const {
  const bool is_whole = options_.batches == nullptr || options_.fills_up;
  return is_whole ? options_.batch_size : options_.batches->batch_size(batch);
}

bool SlabRing::is_settled(std::uint64_t batch) {
  if (batch > taking_ || (batch == taking_ && !is_open_)) return false;
  // After a failure no further positions are handed out, so only those that were must be finished.
  const bool failed = failure_ && failure_->batch == batch;
  return filling(batch).finished == (failed ? filling(batch).taken : filling(batch).samples);
}

std::size_t SlabRing::count_settled() {
  std::size_t count = 0;
  while (count < filling_.size() && is_settled(next_ + count)) ++count;
  return count;
}

SlabRing::FreedSlab SlabRing::pop_freed() {
  const FreedSlab freed = freed_[freed_first_];
  freed_first_ = (freed_first_ + 1) % freed_.size();
  --freed_count_;
  return freed;
}

void SlabRing::push_freed(const FreedSlab& freed) {
  freed_[(freed_first_ + freed_count_) % freed_.size()] = freed;
  ++freed_count_;
}

SlabRing::Ticket SlabRing::issue() {
  Filling& batch = filling(taking_);
  if (batch.taken == 0 && !traces_.empty()) batch.begin_ns = trace_now_ns();
  const Ticket ticket = {taking_, batch.taken++, memory_[batch.slab]};
  if (batch.taken == batch.samples) {
    is_open_ = false;
    ++taking_;
  }
  return ticket;
}

void SlabRing::open(const FreedSlab& freed) {
  std::exception_ptr error;
  try {
    if (freed.last_use != nullptr) freed.last_use->synchronize();
  } catch (...) {
    error = std::current_exception();
  }
  Lock lock(mutex_);
  is_opening_ = false;
  is_open_ = true;
  filling(taking_) = {freed.slab, samples(taking_), 0, 0, 0};
  if (error) {
    fail(taking_, 0, std::move(error));
    settled_.notify_one();
  }
}

void SlabRing::fail(std::uint64_t batch, std::size_t position, std::exception_ptr error) {
  const bool earlier = !failure_ || batch < failure_->batch ||
                       (batch == failure_->batch && position < failure_->position);
  if (earlier) failure_ = Failure{batch, position, std::move(error)};
}

}  // namespace slipstream
