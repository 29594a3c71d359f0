#pragma once

#include <cstddef>
#include <deque>
#include <optional>

#include "core/sync.h"
#include "slipstream/core/error.h"

namespace slipstream {

/// A first-in, first-out queue for several threads. Producers block while it contains `capacity`
/// items. After it is closed, consumers can still take the remaining items.
template <typename T>
class BoundedQueue {
 public:
  explicit BoundedQueue(std::size_t capacity) : capacity_(capacity) {
    ensure(capacity > 0, "a queue holds something");
  }

  /// Blocks while the queue is full. Returns false, and drops `item`, if the queue is closed.
  bool push(T item) SLIPSTREAM_EXCLUDES(mutex_) {
    {
      Lock lock(mutex_);
      while (!closed_ && items_.size() >= capacity_) changed_.wait(lock);
      if (closed_) return false;
      items_.push_back(std::move(item));
    }
    changed_.notify_all();
    return true;
  }

  /// Blocks while the queue is empty and open. Returns nothing if it is closed and empty.
  std::optional<T> pop() SLIPSTREAM_EXCLUDES(mutex_) {
    std::optional<T> item;
    {
      Lock lock(mutex_);
      while (!closed_ && items_.empty()) changed_.wait(lock);
      if (items_.empty()) return std::nullopt;
      item.emplace(std::move(items_.front()));
      items_.pop_front();
    }
    changed_.notify_all();
    return item;
  }

  void close() SLIPSTREAM_EXCLUDES(mutex_) {
    {
      Lock lock(mutex_);
      closed_ = true;
    }
    changed_.notify_all();
  }

 private:
  const std::size_t capacity_;
  Mutex mutex_;
  ConditionVariable changed_;
  std::deque<T> items_ SLIPSTREAM_GUARDED_BY(mutex_);
  bool closed_ SLIPSTREAM_GUARDED_BY(mutex_) = false;
};

}  // namespace slipstream
