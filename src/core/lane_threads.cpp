#include "core/lane_threads.h"

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <semaphore>

#include "core/start_thread.h"

namespace slipstream {
namespace {

constexpr auto kLookInterval = std::chrono::milliseconds(50);

}  // namespace

/// A latch that can be reused, and whose wait() calls `poll` regularly. It allocates no memory, so
/// that it works even when memory has run out.
class LaneThreads::Countdown {
 public:
  void begin(std::size_t jobs) noexcept {
    const std::lock_guard lock(mutex_);
    left_ = jobs;
  }

  void count_down() noexcept {
    const std::lock_guard lock(mutex_);
    if (--left_ == 0) done_.notify_one();
  }

  void wait(const std::function<void()>& poll) {
    std::unique_lock lock(mutex_);
    while (left_ > 0) {
      if (!poll) {
        done_.wait(lock);
      } else if (done_.wait_for(lock, kLookInterval) == std::cv_status::timeout) {
        // poll() may take long, and jobs must be able to count down meanwhile.
        lock.unlock();
        poll();
        lock.lock();
      }
    }
  }

 private:
  std::mutex mutex_;
  std::condition_variable done_;
  std::size_t left_ = 0;
};

/// A thread that takes its job by pointer: handing over a job cannot fail, so run() cannot return
/// by an exception while jobs still use its local variables.
struct LaneThreads::Thread {
  struct Job {
    std::function<void()>* work;
    Countdown* done;
  };

  void start(const Job& next) noexcept {
    job = next;
    wake.release();
  }

  void work() {
    for (wake.acquire(); job.work != nullptr; wake.acquire()) {
      (*job.work)();
      // Destroys what the job captured before run() returns, while the captured references are
      // valid.
      *job.work = nullptr;
      job.done->count_down();
    }
  }

  ~Thread() { start({}); }

  Job job{};
  std::binary_semaphore wake{0};
  // The last member: the thread starts when everything that it uses is initialized, and is joined
  // before that is destroyed.
  std::jthread thread = start_thread([this] { work(); });
};

LaneThreads::LaneThreads() : done_(std::make_unique<Countdown>()) {}
LaneThreads::~LaneThreads() = default;

std::size_t LaneThreads::size() const { return threads_.size(); }

void LaneThreads::run(std::vector<std::function<void()>> jobs) {
  start(std::move(jobs));
  wait();
}

void LaneThreads::start(std::vector<std::function<void()>> jobs) {
  // All threads exist before the first job starts, so a failure to start one leaves no job running.
  threads_.reserve(jobs.size());
  while (threads_.size() < jobs.size()) threads_.push_back(std::make_unique<Thread>());
  jobs_ = std::move(jobs);
  done_->begin(jobs_.size());
  for (std::size_t k = 0; k < jobs_.size(); ++k) threads_[k]->start({&jobs_[k], done_.get()});
}

void LaneThreads::wait() { done_->wait(poll_); }

}  // namespace slipstream
