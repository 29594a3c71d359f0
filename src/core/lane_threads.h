#pragma once

#include <functional>
#include <memory>
#include <utility>
#include <vector>

namespace slipstream {

/// Host threads that live as long as this object and take one job after the other: thread k always
/// does lane k's part, run after run, so what PyTorch and cuDNN keep per thread stays warm.
class LaneThreads {
 public:
  LaneThreads();
  ~LaneThreads();
  LaneThreads(const LaneThreads&) = delete;
  LaneThreads& operator=(const LaneThreads&) = delete;

  /// Runs jobs[k] on thread k (started when first needed) and returns when all have returned.
  /// Where a thread cannot be started it throws before any job runs. Jobs must not throw. One call
  /// at a time.
  void run(std::vector<std::function<void()>> jobs);
  /// run() in two: wait() returns when all jobs of start() have, at once where there was none. Each
  /// start() has its wait() before the next one and before the end of this object.
  void start(std::vector<std::function<void()>> jobs);
  void wait();
  std::size_t size() const;

  /// While it lives, who waits in run() calls `poll` some times a second. It must not throw. Made
  /// and destroyed by the thread that calls run(), outside it; one at a time.
  class PollScope {
   public:
    PollScope(LaneThreads& threads, std::function<void()> poll) : threads_(threads) {
      threads_.poll_ = std::move(poll);
    }
    ~PollScope() { threads_.poll_ = nullptr; }
    PollScope(const PollScope&) = delete;
    PollScope& operator=(const PollScope&) = delete;

   private:
    LaneThreads& threads_;
  };

 private:
  struct Thread;
  class Countdown;
  std::function<void()> poll_;
  std::vector<std::function<void()>> jobs_;
  std::unique_ptr<Countdown> done_;
  std::vector<std::unique_ptr<Thread>> threads_;
};

}  // namespace slipstream
