#pragma once

#include <functional>
#include <memory>
#include <utility>
#include <vector>

namespace slipstream {

/// Host threads that live as long as this object and execute one job after another. Thread k always
/// runs the part of the same lane, run after run, so that the per-thread state of PyTorch and cuDNN
/// stays warm.
class LaneThreads {
 public:
  LaneThreads();
  ~LaneThreads();
  LaneThreads(const LaneThreads&) = delete;
  LaneThreads& operator=(const LaneThreads&) = delete;

  /// Runs jobs[k] on thread k (started when first needed) and returns when all have returned. If a
  /// thread cannot be started it throws before any job runs. Jobs must not throw. One call at a
  /// time.
  void run(std::vector<std::function<void()>> jobs);
  /// run() in two parts: start() returns at once, and wait() returns when all jobs of start() have
  /// returned (immediately if there was no start()). Call wait() after each start(), before the
  /// next start() and before this object is destroyed.
  void start(std::vector<std::function<void()>> jobs);
  void wait();
  std::size_t size() const;

  /// While it exists, the thread that waits in run() or wait() calls `poll` a few times per second.
  /// `poll` must not throw. The thread that calls run() creates and destroys it, outside run();
  /// only one may exist at a time.
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
