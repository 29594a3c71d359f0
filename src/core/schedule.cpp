#include "core/schedule.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

namespace slipstream {
namespace {

constexpr std::chrono::milliseconds kPollInterval{50};  ///< between two calls of Work::poll()
constexpr std::chrono::microseconds kPoll{100};         ///< between two looks at a mark

}  // namespace

Schedule::Schedule(std::vector<Lane*> lanes, std::size_t depth, std::size_t run_ahead, Work& work,
                   const ScheduleProbe* probe)
    : lanes_(std::move(lanes)),
      depth_(depth),
      window_(depth + run_ahead),
      work_(work),
      probe_(probe),
      recorded_(lanes_.size(), 0) {
  ensure(!lanes_.empty() && depth_ >= lanes_.size(), "a slot for every lane");
  ensure(run_ahead >= 1, "a mark is not reused while a wait may name it");
  const bool is_timed = work_.wants_times();
  for (Lane* lane : lanes_) {
    // One more than the window: retired() may still look at the marks of the batch before.
    SlotRing<Marks>& ring = marks_.emplace_back(window_ + 1);
    for (Marks& marks : ring)
      marks = is_timed ? Marks{lane->make_mark(), lane->make_mark()}
                       : Marks{nullptr, lane->make_untimed_mark()};
    last_marks_.push_back(lane->make_untimed_mark());
  }
}

Schedule::~Schedule() = default;

void Schedule::reset(std::uint64_t batches, const std::function<bool()>& stop) {
  {
    Lock lock(mutex_);
    recorded_.assign(lanes_.size(), 0);
    batches_ = batches;
    error_ = nullptr;
  }
  retired_ = 0;
  stop_ = stop ? &stop : nullptr;
}

std::uint64_t Schedule::run(std::uint64_t batches, Driver driver, LaneThreads& threads,
                            const std::function<bool()>& stop) {
  reset(batches, stop);
  if (driver == Driver::interleaved) {
    run_interleaved();
  } else {
    std::vector<std::function<void()>> jobs;
    // The last lane on the first thread: the training stage keeps its thread in every plan.
    for (std::size_t lane = lanes_.size(); lane-- > 0;)
      jobs.emplace_back([this, lane] { run_lane(lane); });
    threads.run(std::move(jobs));
  }
  drain();
  Lock lock(mutex_);
  if (error_) std::rethrow_exception(error_);
  return batches_;
}

void Schedule::run_lane(std::size_t lane) noexcept {
  try {
    lanes_[lane]->begin_thread();
  } catch (...) {
    fail(lane, next_batch(lane));
  }
  while (!finished(lane)) {
    const std::uint64_t batch = next_batch(lane);
    try {
      if (lane == 0 && !admit(batch)) return;
      advance(lane, batch);
    } catch (const Stopped&) {
      return;
    } catch (...) {
      fail(lane, batch);
    }
  }
}

void Schedule::run_interleaved() {
  const std::size_t last = lanes_.size() - 1;
  std::size_t lane = last;
  try {
    while (!finished(last)) {
      lane = last;
      while (lane > 0 && !can_advance(lane)) --lane;
      if (lane > 0 || admit(next_batch(0))) advance(lane, next_batch(lane));
    }
  } catch (const Stopped&) {
  } catch (...) {
    fail(lane, next_batch(lane));
  }
}

bool Schedule::can_advance(std::size_t lane) {
  Lock lock(mutex_);
  return may_advance(lane);
}

bool Schedule::may_advance(std::size_t lane) const {
  const std::uint64_t batch = recorded_[lane];
  if (batch >= batches_ || error_) return false;
  if (batch >= reach(lane) && recorded_.back() <= batch - reach(lane)) return false;
  return lane == 0 || recorded_[lane - 1] > batch;
}

bool Schedule::admit(std::uint64_t batch) {
  if (stop_ != nullptr && (*stop_)()) {
    {
      Lock lock(mutex_);
      batches_ = std::min(batches_, batch);
    }
    changed_.notify_all();
    return false;
  }
  if (batch >= window_) {
    await_recorded(lanes_.size() - 1, batch - window_);
    retire_until(batch - window_ + 1);
  }
  await_input(batch);
  return true;
}

void Schedule::await_input(std::uint64_t batch) {
  if (!work_.input_ready(batch)) work_.await_input(batch);
}

void Schedule::begin(std::uint64_t batches, const std::function<bool()>& stop, LaneThreads* threads,
                     std::vector<std::size_t> on_threads) {
  ensure(lanes_.size() >= 2, "there is a lane ahead of the caller's");
  reset(batches, stop);
  std::vector<std::function<void()>> jobs;
  for (const std::size_t lane : on_threads) {
    ensure(lane + 1 < lanes_.size(), "the last lane is the caller's");
    jobs.emplace_back([this, lane] { run_lane(lane); });
  }
  on_threads_ = std::move(on_threads);
  threads_ = jobs.empty() ? nullptr : threads;
  has_begun_ = true;
  if (threads_ != nullptr) threads_->start(std::move(jobs));
}

bool Schedule::is_on_thread(std::size_t lane) const {
  return std::find(on_threads_.begin(), on_threads_.end(), lane) != on_threads_.end();
}

void Schedule::done() {
  const std::size_t last = lanes_.size() - 1;
  if (std::exchange(is_open_, false)) leave(last, next_batch(last));
}

bool Schedule::next() {
  const std::size_t last = lanes_.size() - 1;
  try {
    done();
    while (advance_ahead(false) ||
           (!can_advance(last) && (await_threads() || advance_ahead(true)))) {
    }
    if (!can_advance(last)) return false;
    enter(last, next_batch(last));
    is_open_ = true;
    return true;
  } catch (const Stopped&) {
  } catch (...) {
    fail(last, next_batch(last));
  }
  std::exception_ptr error;  // kept nowhere else: it may hold what holds this
  {
    Lock lock(mutex_);
    error = std::exchange(error_, nullptr);
    batches_ = 0;  // threads take no more
  }
  std::rethrow_exception(error);
}

bool Schedule::advance_ahead(bool may_wait) {
  std::size_t lane = lanes_.size() - 2;
  while (lane > 0 && (is_on_thread(lane) || !can_advance(lane))) --lane;
  if (lane == 0 && (is_on_thread(0) || !can_advance(0))) return false;
  const std::uint64_t batch = next_batch(lane);
  if (lane == 0) {
    if (!may_wait && !work_.input_ready(batch)) return false;
    if (!admit(batch)) return true;
  }
  try {
    advance(lane, batch);
  } catch (const Stopped&) {
    throw;
  } catch (...) {
    fail(lane, batch);
    throw Stopped{};
  }
  return true;
}

bool Schedule::await_threads() {
  Next next = await_next();
  for (; next == Next::threads; next = await_next()) work_.poll();
  return next == Next::callers;
}

Schedule::Next Schedule::await_next() {
  Lock lock(mutex_);
  do {
    if (error_) throw Stopped{};
    bool is_at_work = false;
    for (std::size_t lane = 0; lane < lanes_.size(); ++lane) {
      if (!may_advance(lane)) continue;
      if (is_on_thread(lane)) {
        is_at_work = true;
      } else if (lane > 0) {
        return Next::callers;
      }
    }
    if (!is_at_work) return Next::nobodys;
  } while (changed_.wait_for(lock, kPollInterval) == std::cv_status::no_timeout);
  return Next::threads;
}

void Schedule::stop() {
  if (threads_ == nullptr) return;
  {
    Lock lock(mutex_);
    batches_ = 0;
  }
  changed_.notify_all();
  threads_->wait();
  threads_ = nullptr;
  on_threads_.clear();
}

void Schedule::end() {
  if (!std::exchange(has_begun_, false)) return;
  stop();
  done();
  // Behind the work of a batch that failed, too, whose end was not recorded.
  for (std::size_t lane = 0; lane < lanes_.size(); ++lane) lanes_[lane]->record(*last_marks_[lane]);
  for (std::size_t lane = 0; lane < lanes_.size(); ++lane) {
    for (std::size_t other = 0; other < lanes_.size(); ++other) {
      if (other == lane) continue;
      lanes_[lane]->wait(*last_marks_[other]);
      const std::uint64_t recorded = next_batch(other);
      Lock lock(mutex_);
      if (recorded > 0 && probe_ != nullptr && probe_->check != nullptr)
        probe_->check->wait(lane, other, recorded - 1);
    }
  }
  for (std::size_t lane = 0; lane < lanes_.size(); ++lane)
    for (std::size_t slot = 0; slot < depth_; ++slot) {
      work_.drop(lane, slot);
      Lock lock(mutex_);
      if (probe_ != nullptr && probe_->check != nullptr) probe_->check->drop(lane, slot);
    }
}

void Schedule::advance(std::size_t lane, std::uint64_t batch) {
  enter(lane, batch);
  work_.run(lane, batch, batch % depth_);
  leave(lane, batch);
}

void Schedule::enter(std::size_t lane, std::uint64_t batch) {
  if (batch >= reach(lane))
    wait(lane, lanes_.size() - 1, batch - reach(lane), WaitId::Kind::retired);
  if (probe_ != nullptr && probe_->check != nullptr) {
    Lock lock(mutex_);
    probe_->check->drop(lane, batch);
  }
  work_.drop(lane, batch % depth_);
  if (lane > 0) wait(lane, lane - 1, batch, WaitId::Kind::handoff);

  if (Mark* begin = marks_[lane].of(batch).begin.get()) lanes_[lane]->record(*begin);
  if (probe_ != nullptr && probe_->delay) probe_->delay(lane, batch, true);
}

void Schedule::leave(std::size_t lane, std::uint64_t batch) {
  if (probe_ != nullptr && probe_->delay) probe_->delay(lane, batch, false);
  lanes_[lane]->record(*marks_[lane].of(batch).end);
  {
    Lock lock(mutex_);
    if (probe_ != nullptr && probe_->check != nullptr) {
      probe_->check->run(lane, batch);
      probe_->check->record(lane, batch);
    }
    ++recorded_[lane];
  }
  changed_.notify_all();
}

void Schedule::wait(std::size_t lane, std::size_t producer, std::uint64_t batch,
                    WaitId::Kind kind) {
  const bool skipped = probe_ != nullptr && probe_->skip && probe_->skip({kind, lane});
  if (skipped && probe_->skip_gate) return;
  await_recorded(producer, batch);
  {
    Lock lock(mutex_);
    ensure(recorded_[producer] > batch && recorded_[producer] <= batch + window_,
           "a wait names the recording it was meant for");
    if (!skipped && probe_ != nullptr && probe_->check != nullptr)
      probe_->check->wait(lane, producer, batch);
  }
  if (!skipped) lanes_[lane]->wait(*marks_[producer].of(batch).end);
}

void Schedule::await_recorded(std::size_t lane, std::uint64_t batch) {
  Lock lock(mutex_);
  while (!error_ && recorded_[lane] <= batch && batch < batches_) changed_.wait(lock);
  if (error_ || recorded_[lane] <= batch) throw Stopped{};
}

void Schedule::retire_until(std::uint64_t batches) {
  std::vector<const Mark*> begin(lanes_.size());
  std::vector<const Mark*> end(lanes_.size());
  while (retired_ < batches) {
    const std::uint64_t batch = retired_++;
    for (std::size_t lane = 0; lane < lanes_.size(); ++lane) {
      begin[lane] = marks_[lane].of(batch).begin.get();
      end[lane] = marks_[lane].of(batch).end.get();
    }
    try {
      await_reached(*end.back());
      work_.retired(batch, begin, end);
    } catch (const Stopped&) {
      throw;
    } catch (...) {
      fail(lanes_.size() - 1, batch);
      throw Stopped{};
    }
  }
}

/// Of begin()'s threads, the first lane's must not keep stop() waiting for a device.
void Schedule::await_reached(const Mark& mark) {
  if (!is_on_thread(0)) return mark.synchronize();
  while (!mark.reached()) {
    std::this_thread::sleep_for(kPoll);
    Lock lock(mutex_);
    if (error_ || batches_ == 0) throw Stopped{};
  }
}

void Schedule::fail(std::size_t lane, std::uint64_t batch) {
  {
    Lock lock(mutex_);
    if (!error_) {
      error_ = std::current_exception();
      failed_lane_ = lane;
      failed_batch_ = batch;
    }
  }
  changed_.notify_all();
}

void Schedule::drain() {
  for (std::size_t lane = 0; lane < lanes_.size(); ++lane) {
    try {
      lanes_[lane]->synchronize();
    } catch (...) {
      fail(lane, retired_);
    }
  }
  if (probe_ != nullptr && probe_->check != nullptr) probe_->check->drained();
  const std::uint64_t recorded = next_batch(lanes_.size() - 1);
  while (retired_ < recorded) {
    try {
      retire_until(recorded);
    } catch (const Stopped&) {
      continue;  // what threw is kept; the batches behind it have been run, too
    } catch (...) {
      fail(0, retired_);
      return;
    }
  }
}

std::uint64_t Schedule::next_batch(std::size_t lane) {
  Lock lock(mutex_);
  return recorded_[lane];
}

bool Schedule::finished(std::size_t lane) {
  Lock lock(mutex_);
  return error_ != nullptr || recorded_[lane] >= batches_;
}

}  // namespace slipstream
