#include "bindings/worker_pool.h"

#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "bindings/worker.h"

namespace slipstream {
namespace {

constexpr auto kWait = std::chrono::milliseconds(50);

int made_wake() {
  const int wake = eventfd(0, EFD_CLOEXEC);
  if (wake < 0) throw WorkerLost("no file descriptor is left for worker processes (ulimit -n)");
  return wake;
}

}  // namespace

/// Reserves a process for this thread.
class WorkerPool::WorkerLease {
 public:
  WorkerLease(WorkerPool& pool, Worker* worker) : pool_(pool), worker_(worker) {}
  ~WorkerLease() { pool_.return_worker(worker_); }
  WorkerLease(const WorkerLease&) = delete;
  WorkerLease& operator=(const WorkerLease&) = delete;
  Worker& operator*() const { return *worker_; }

 private:
  WorkerPool& pool_;
  Worker* worker_;
};

PoolUser::PoolUser() : wake_(made_wake()) {}

PoolUser::~PoolUser() { ::close(wake_); }

WorkerPool::WorkerPool() : wake_(made_wake()) {}

WorkerPool::~WorkerPool() { ::close(wake_); }

void WorkerPool::add(int socket, int memory, unsigned number, int process) {
  const std::lock_guard lock(changing_);
  workers_.push_back(std::make_unique<Worker>(socket, memory, number, process));
  free_.push_back(workers_.back().get());
  ++living_;
  changed_.notify_one();
}

/// Finds a process for a request. A process that still works on an interrupted request is the last
/// choice.
std::deque<WorkerPool::Worker*>::iterator WorkerPool::find_free() {
  const auto found = std::find_if(free_.begin(), free_.end(), [](const Worker* worker) {
    return !worker->is_behind() || worker->has_answered();
  });
  return found == free_.end() && free_.size() == living_ ? free_.begin() : found;
}

void WorkerPool::set_on_wait(OnWait on_wait) {
  const std::lock_guard lock(changing_);
  on_wait_ = std::move(on_wait);
  waiter_ = std::this_thread::get_id();
}

WorkerPool::OnWait WorkerPool::on_wait() const {
  const std::lock_guard lock(changing_);
  return waiter_ == std::this_thread::get_id() ? on_wait_ : nullptr;
}

WorkerPool::Worker* WorkerPool::take(const PoolUser* user, const OnWait& on_wait) {
  std::unique_lock lock(changing_);
  while (true) {
    if (is_closed_) throw WorkerLost("the worker processes have been ended");
    if (user != nullptr && user->has_left())
      throw WorkerLost("the wait for a worker process was ended");
    if (living_ == 0)
      throw WorkerLost("all worker processes have ended; the last one: " + last_end_);
    if (const auto found = find_free(); found != free_.end()) {
      Worker* const worker = *found;
      free_.erase(found);
      return worker;
    }
    if (!on_wait && free_.empty()) {
      changed_.wait(lock);
      continue;
    }
    // A process that answers an interrupted request notifies no thread, so find_free() has to look
    // again.
    changed_.wait_for(lock, kWait);
    if (!on_wait) continue;
    lock.unlock();
    on_wait();
    lock.lock();
  }
}

void WorkerPool::return_worker(Worker* worker) {
  const std::lock_guard lock(changing_);
  if (worker->is_lost()) {
    lost_.push_back(worker);
    last_end_ = worker->end();
    --living_;
    changed_.notify_all();
    return;
  }
  // Processes that are still at work go to the end, so that find_free() finds an idle one first.
  if (worker->is_behind()) {
    free_.push_back(worker);
  } else {
    free_.push_front(worker);
  }
  changed_.notify_one();
}

void WorkerPool::ask(const WorkerRequest& request, const ConstArray* input, const Use& use,
                     const PoolUser* user) {
  const OnWait on_wait_poll = on_wait();
  const Wakes wakes{wake_, user == nullptr ? -1 : user->wake_};
  while (true) {
    const WorkerLease worker(*this, take(user, on_wait_poll));
    if (!(*worker).catch_up(wakes, on_wait_poll)) continue;
    return use((*worker).ask(request, input, wakes, on_wait_poll));
  }
}

void WorkerPool::interrupt(PoolUser& user) {
  const std::lock_guard lock(changing_);
  if (user.has_left_.exchange(true)) return;
  eventfd_write(user.wake_, 1);
  changed_.notify_all();
}

void WorkerPool::close() {
  const std::lock_guard lock(changing_);
  if (std::exchange(is_closed_, true)) return;
  eventfd_write(wake_, 1);
  changed_.notify_all();
  // Not close(): other threads may still use the descriptors, whose numbers could then belong to
  // other files.
  for (const auto& worker : workers_) shutdown(worker->socket(), SHUT_RDWR);
}

std::vector<unsigned> WorkerPool::take_lost(bool with_busy, const std::vector<unsigned>& unwanted) {
  const std::lock_guard lock(changing_);
  std::erase_if(free_, [&](Worker* worker) {
    const bool is_unwanted = (with_busy && worker->is_behind()) ||
                             std::ranges::find(unwanted, worker->number()) != unwanted.end();
    if (is_unwanted) lost_.push_back(worker);
    living_ -= is_unwanted ? 1 : 0;
    return is_unwanted;
  });
  std::vector<unsigned> numbers;
  for (const Worker* worker : lost_) numbers.push_back(worker->number());
  std::erase_if(workers_, [&](const auto& worker) {
    return std::ranges::find(lost_, worker.get()) != lost_.end();
  });
  lost_.clear();
  return numbers;
}

std::vector<int> WorkerPool::descriptors() const {
  const std::lock_guard lock(changing_);
  std::vector<int> all;
  for (const auto& worker : workers_) {
    all.push_back(worker->socket());
    all.push_back(worker->memory());
  }
  return all;
}

}  // namespace slipstream
