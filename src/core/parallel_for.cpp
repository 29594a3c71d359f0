#include "core/parallel_for.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <utility>
#include <vector>

#include "core/start_thread.h"
#include "core/sync.h"
#include "slipstream/core/cpu.h"

namespace slipstream {
namespace {

class WorkQueue {
 public:
  explicit WorkQueue(std::size_t items) : items_(items), failed_(items) {}

  void work(const std::function<ItemWork()>& make_work) {
    // An exception from make_work() belongs to no item and counts after all of them.
    std::size_t item = items_;
    try {
      const ItemWork work = make_work();
      for (item = next_++; item < items_; item = next_++) {
        // Setting the counter to its end stops the distribution in all threads.
        if (!work(item)) next_ = items_;
      }
    } catch (...) {
      fail(item, std::current_exception());
    }
  }

  void fail(std::size_t item, std::exception_ptr error) SLIPSTREAM_EXCLUDES(mutex_) {
    next_ = items_;
    const Lock lock(mutex_);
    // Items were handed out in order, so the lowest failing one is always among those that ran.
    // Keeping its exception makes the error independent of the number of threads.
    if (error_ && item >= failed_) return;
    failed_ = item;
    error_ = std::move(error);
  }

  void rethrow() SLIPSTREAM_EXCLUDES(mutex_) {
    const Lock lock(mutex_);
    if (error_) std::rethrow_exception(error_);
  }

 private:
  const std::size_t items_;
  std::atomic<std::size_t> next_ = 0;
  Mutex mutex_;
  std::size_t failed_ SLIPSTREAM_GUARDED_BY(mutex_);
  std::exception_ptr error_ SLIPSTREAM_GUARDED_BY(mutex_);
};

}  // namespace

void parallel_for(std::size_t items, unsigned threads, const std::function<ItemWork()>& make_work) {
  if (items == 0) return;
  const unsigned wanted = threads > 0 ? threads : usable_cores();
  const std::size_t others = std::clamp<std::size_t>(wanted, 1, items) - 1;
  WorkQueue handout(items);
  {
    std::vector<std::jthread> helpers;
    try {
      for (std::size_t i = 0; i < others; ++i)
        helpers.push_back(start_thread([&] { handout.work(make_work); }));
    } catch (...) {
      // Stops the threads that did start. They are joined at the end of the scope, before the error
      // is rethrown.
      handout.fail(items, std::current_exception());
    }
    handout.work(make_work);
  }
  handout.rethrow();
}

}  // namespace slipstream
