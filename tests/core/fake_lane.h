#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "core/bounded_queue.h"
#include "core/patience.h"
#include "slipstream/core/error.h"
#include "slipstream/core/lane.h"

namespace slipstream::test {

/// Simulates a CUDA stream without a GPU: one thread executes the enqueued work in order, after the
/// call that enqueued it has returned. A wait refers to the mark's last recording at the time of
/// the call. If work throws, the lane is lost, as a device is after a device-side assertion: later
/// work is skipped, marks are still reached, and synchronizing throws DeviceLost.
class FakeLane final : public Lane {
 public:
  explicit FakeLane(std::string name) : Lane(std::move(name)) {}
  ~FakeLane() override { queue_.close(); }

  void enqueue(std::function<void()> work) {
    queue_.push([shared = shared_, work = std::move(work)] {
      if (shared->lost()) return;
      try {
        work();
      } catch (const std::exception& error) {
        shared->lose(error.what());
      }
    });
  }

  void begin_thread() override {
    if (on_begin_thread) on_begin_thread();
    begun_by_ = std::this_thread::get_id();
  }
  /// Returns the last thread that called begin_thread(). Only that thread may call this.
  std::thread::id begun_by() const { return begun_by_; }

  std::unique_ptr<Mark> make_mark() override { return std::make_unique<FakeMark>(shared_); }

  void record(Mark& mark) override {
    auto& point = *dynamic_cast<FakeMark&>(mark).point;
    point.recorded.add();
    queue_.push([held = dynamic_cast<FakeMark&>(mark).point] {
      held->time = std::chrono::steady_clock::now();
      held->reached.add();
    });
  }

  void wait(const Mark& mark) override {
    const auto* fake = dynamic_cast<const FakeMark*>(&mark);
    if (fake == nullptr) return mark.synchronize();
    const std::uint64_t generation = fake->point->recorded.value();
    ensure(generation > 0, "a wait names a recording");
    enqueue([point = fake->point, generation] {
      point->reached.await(generation, "another lane's mark");
    });
  }

  void synchronize() override {
    auto end = std::make_shared<Counter>();
    queue_.push([end] { end->add(); });
    shared_->block_on(*end, 1);
  }

  std::function<void()> on_begin_thread;

  /// Returns the number of host threads that are blocked on this lane or its marks.
  int blocked_hosts() const { return shared_->blocked; }

 private:
  struct Shared {
    bool lost() {
      Lock lock(mutex);
      return !error.empty();
    }
    void lose(const std::string& what) {
      Lock lock(mutex);
      if (error.empty()) error = what;
    }
    void block_on(Counter& counter, std::uint64_t value) {
      ++blocked;
      counter.await(value, "a fake lane's work");
      --blocked;
      Lock lock(mutex);
      if (!error.empty()) throw DeviceLost(error);
    }

    std::atomic<int> blocked = 0;
    Mutex mutex;
    std::string error SLIPSTREAM_GUARDED_BY(mutex);
  };

  struct Point {
    Counter recorded, reached;
    std::chrono::steady_clock::time_point time;
  };

  struct FakeMark final : Mark {
    explicit FakeMark(std::shared_ptr<Shared> lane) : shared(std::move(lane)) {}
    bool reached() const override { return point->reached.value() == point->recorded.value(); }
    void synchronize() const override { shared->block_on(point->reached, point->recorded.value()); }
    double seconds_after(const Mark& earlier) const override {
      const auto& other = dynamic_cast<const FakeMark&>(earlier);
      ensure(reached() && other.reached(), "times are compared after the work");
      return std::chrono::duration<double>(point->time - other.point->time).count();
    }

    std::shared_ptr<Shared> shared;
    // shared: work in the queue may outlive the mark
    std::shared_ptr<Point> point = std::make_shared<Point>();
  };

  std::thread::id begun_by_;
  std::shared_ptr<Shared> shared_ = std::make_shared<Shared>();
  BoundedQueue<std::function<void()>> queue_{1'000'000};
  std::jthread thread_{[this] {
    while (auto work = queue_.pop()) (*work)();
  }};
};

}  // namespace slipstream::test
