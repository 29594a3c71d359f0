#include "slipstream/lane_threads.h"

#include <latch>
#include <thread>

#include "slipstream/bounded_queue.h"

namespace slipstream {

struct LaneThreads::Thread {
  BoundedQueue<std::function<void()>> jobs{1};
  std::jthread thread{[this] {
    while (auto job = jobs.pop()) (*job)();
  }};

  ~Thread() { jobs.close(); }
};

LaneThreads::LaneThreads() = default;
LaneThreads::~LaneThreads() = default;

std::size_t LaneThreads::size() const { return threads_.size(); }

void LaneThreads::run(std::vector<std::function<void()>> jobs) {
  while (threads_.size() < jobs.size()) threads_.push_back(std::make_unique<Thread>());
  std::latch done(static_cast<std::ptrdiff_t>(jobs.size()));
  for (std::size_t k = 0; k < jobs.size(); ++k) {
    threads_[k]->jobs.push([job = std::move(jobs[k]), &done]() mutable {
      job();
      job = nullptr;
      done.count_down();
    });
  }
  done.wait();
}

}  // namespace slipstream
