#include "core/lane_threads.h"

#include <latch>
#include <semaphore>

#include "core/start_thread.h"

namespace slipstream {

/// Takes a job by pointer: nothing of handing it over can fail, so that run() cannot leave while
/// jobs that look at its locals go on.
struct LaneThreads::Thread {
  struct Job {
    std::function<void()>* work;
    std::latch* done;
  };

  void start(const Job& next) noexcept {
    job = next;
    wake.release();
  }

  void work() {
    for (wake.acquire(); job.work != nullptr; wake.acquire()) {
      (*job.work)();
      *job.work = nullptr;
      job.done->count_down();
    }
  }

  ~Thread() { start({}); }

  Job job{};
  std::binary_semaphore wake{0};
  std::jthread thread = start_thread([this] { work(); });
};

LaneThreads::LaneThreads() = default;
LaneThreads::~LaneThreads() = default;

std::size_t LaneThreads::size() const { return threads_.size(); }

void LaneThreads::run(std::vector<std::function<void()>> jobs) {
  threads_.reserve(jobs.size());
  while (threads_.size() < jobs.size()) threads_.push_back(std::make_unique<Thread>());
  std::latch done(static_cast<std::ptrdiff_t>(jobs.size()));
  for (std::size_t k = 0; k < jobs.size(); ++k) threads_[k]->start({&jobs[k], &done});
  done.wait();
}

}  // namespace slipstream
