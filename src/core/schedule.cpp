#include "core/schedule.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

namespace slipstream {
namespace {

constexpr std::chrono::milliseconds kPollInterval{50};  ///< between two calls of Work::poll()
constexpr std::chrono::microseconds kPoll{100};         ///< between two checks of a mark

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
    // One more than the window, because completed() may still read the marks of the previous batch.
    SlotRing<Marks>& ring = marks_.emplace_back(window_ + 1);
    for (Marks& marks : ring)
      // CUDA events that are timed and can block the host raise an interrupt at each recording, so
      // they are used only where times are wanted.
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
  completed_ = 0;
  stop_ = stop ? &stop : nullptr;
}

std::uint64_t Schedule::run(std::uint64_t batches, Driver driver, LaneThreads& threads,
                            const std::function<bool()>& stop) {
  reset(batches, stop);
  if (driver == Driver::interleaved) {
    run_interleaved();
  } else {
    std::vector<std::function<void()>> jobs;
    // The last lane runs on the first thread, so that the training stage has the same thread in
    // every plan and keeps the per-thread state of PyTorch and cuDNN.
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
  // After an error this lane's loop ends at finished(); the others stop at their next wait.
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
      // Later lanes first: they work on older batches, and only a finished batch frees its slot.
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
  // These are the conditions under which enter() finds both marks recorded, so that advance()
  // enqueues without blocking the host.
  if (batch >= reach(lane) && recorded_.back() <= batch - reach(lane)) return false;
  return lane == 0 || recorded_[lane - 1] > batch;
}

bool Schedule::admit(std::uint64_t batch) {
  if (stop_ != nullptr && (*stop_)()) {
    {
      Lock lock(mutex_);
      // Batches that have entered already are finished by the other lanes.
      batches_ = std::min(batches_, batch);
    }
    changed_.notify_all();
    return false;
  }
  if (batch >= window_) {
    // Marks are reused after `window_` + 1 batches. Completing here keeps the host within its
    // limit, and reads the times of a mark before it is recorded again.
    await_recorded(lanes_.size() - 1, batch - window_);
    complete_until(batch - window_ + 1);
  }
  await_input(batch);
  return true;
}

void Schedule::await_input(std::uint64_t batch) {
  if (!work_.input_ready(batch)) work_.await_input(batch);
}

void Schedule::begin(std::uint64_t batches, const std::function<bool()>& stop, LaneThreads* threads,
                     std::vector<std::size_t> on_threads) {
  ensure(lanes_.size() >= 2, "there is a lane before the caller's");
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
    // First everything that can be enqueued without waiting. Only if that does not let the last
    // lane begin does the caller wait: for threads, then for late input.
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
  std::exception_ptr error;  // kept nowhere else: it may own an object that owns this schedule
  {
    Lock lock(mutex_);
    error = std::exchange(error_, nullptr);
    batches_ = 0;  // threads take no further batch
  }
  std::rethrow_exception(error);
}

bool Schedule::advance_ahead(bool may_wait) {
  std::size_t lane = lanes_.size() - 2;
  while (lane > 0 && (is_on_thread(lane) || !can_advance(lane))) --lane;
  if (lane == 0 && (is_on_thread(0) || !can_advance(0))) return false;
  const std::uint64_t batch = next_batch(lane);
  if (lane == 0) {
    // While the last lane can go ahead, late input must not delay it.
    if (!may_wait && !work_.input_ready(batch)) return false;
    // The run was stopped, which changes what other lanes may do: the caller looks again.
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
  // poll() may run any code of the caller, such as signal handlers, so it is called here, where the
  // lock is not held.
  for (; next == Next::threads; next = await_next()) work_.poll();
  return next == Next::callers;
}

Schedule::Next Schedule::await_next() {
  Lock lock(mutex_);
  do {
    // next() catches this and rethrows the error itself.
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
  // Threads leave the run when they next read the number of batches. None of them blocks on a
  // device, because await_reached() polls.
  threads_->wait();
  threads_ = nullptr;
  on_threads_.clear();
}

void Schedule::end() {
  if (!std::exchange(has_begun_, false)) return;
  stop();
  done();
  // New marks, because the end of a batch that failed halfway was not recorded although its work
  // was enqueued.
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
    // Tensors are dropped only after every lane waits for all others, because a dropped tensor
    // returns to its lane's stream, and any other lane may still be using it.
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
  // The slot's last reader is the last lane, for the batch `depth` earlier. Waiting for a slightly
  // later batch also keeps this lane from queueing far ahead of its input.
  if (batch >= reach(lane)) wait(lane, lanes_.size() - 1, batch - reach(lane), WaitId::Kind::slot);
  if (probe_ != nullptr && probe_->check != nullptr) {
    Lock lock(mutex_);
    probe_->check->drop(lane, batch);
  }
  // The caching allocator hands dropped memory back to this lane's stream at once, so the drop
  // comes only after the wait for the last reader.
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
    // Counted after the recording: a lane that reads this number may enqueue a wait for the mark.
    ++recorded_[lane];
  }
  changed_.notify_all();
}

void Schedule::wait(std::size_t lane, std::size_t producer, std::uint64_t batch,
                    WaitId::Kind kind) {
  const bool skipped = probe_ != nullptr && probe_->skip && probe_->skip({kind, lane});
  if (skipped && probe_->skip_gate) return;
  // A wait for an event that is not recorded yet would order nothing, without any error.
  await_recorded(producer, batch);
  {
    Lock lock(mutex_);
    // The upper limit ensures that the mark has not been recorded again for a later batch, which
    // would move it.
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
  // The run was stopped before that batch, so its mark will never be recorded.
  if (error_ || recorded_[lane] <= batch) throw Stopped{};
}

void Schedule::complete_until(std::uint64_t batches) {
  std::vector<const Mark*> begin(lanes_.size());
  std::vector<const Mark*> end(lanes_.size());
  while (completed_ < batches) {
    // Counted first: a batch whose completed() throws is not passed to it again by drain().
    const std::uint64_t batch = completed_++;
    for (std::size_t lane = 0; lane < lanes_.size(); ++lane) {
      begin[lane] = marks_[lane].of(batch).begin.get();
      end[lane] = marks_[lane].of(batch).end.get();
    }
    try {
      await_reached(*end.back());
      work_.completed(batch, begin, end);
    } catch (const Stopped&) {
      throw;
    } catch (...) {
      fail(lanes_.size() - 1, batch);
      throw Stopped{};
    }
  }
}

/// Waits for a mark. A thread of begin() polls instead of blocking on the device, so that stop()
/// does not have to wait for the device.
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
      fail(lane, completed_);
    }
  }
  if (probe_ != nullptr && probe_->check != nullptr) probe_->check->drained();
  const std::uint64_t recorded = next_batch(lanes_.size() - 1);
  while (completed_ < recorded) {
    try {
      complete_until(recorded);
    } catch (const Stopped&) {
      continue;  // fail() has kept the error; later batches have run and are completed as well
    } catch (...) {
      fail(0, completed_);
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
