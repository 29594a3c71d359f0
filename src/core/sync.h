#pragma once

#include <condition_variable>
#include <mutex>

// Annotations that let `clang -Wthread-safety` prove which mutex guards what; empty elsewhere.
#if defined(__clang__)
#define SLIPSTREAM_ANNOTATE(x) __attribute__((x))
#else
#define SLIPSTREAM_ANNOTATE(x)
#endif
#define SLIPSTREAM_CAPABILITY(x) SLIPSTREAM_ANNOTATE(capability(x))
#define SLIPSTREAM_SCOPED_CAPABILITY SLIPSTREAM_ANNOTATE(scoped_lockable)
#define SLIPSTREAM_GUARDED_BY(x) SLIPSTREAM_ANNOTATE(guarded_by(x))
#define SLIPSTREAM_REQUIRES(...) SLIPSTREAM_ANNOTATE(requires_capability(__VA_ARGS__))
#define SLIPSTREAM_ACQUIRE(...) SLIPSTREAM_ANNOTATE(acquire_capability(__VA_ARGS__))
#define SLIPSTREAM_RELEASE(...) SLIPSTREAM_ANNOTATE(release_capability(__VA_ARGS__))
#define SLIPSTREAM_EXCLUDES(...) SLIPSTREAM_ANNOTATE(locks_excluded(__VA_ARGS__))
#define SLIPSTREAM_NO_THREAD_SAFETY_ANALYSIS SLIPSTREAM_ANNOTATE(no_thread_safety_analysis)

namespace slipstream {

/// A std::mutex that clang's thread-safety analysis understands.
class SLIPSTREAM_CAPABILITY("mutex") Mutex {
 public:
  void lock() SLIPSTREAM_ACQUIRE() { mutex_.lock(); }
  void unlock() SLIPSTREAM_RELEASE() { mutex_.unlock(); }

 private:
  std::mutex mutex_;
};

/// Holds a Mutex for a scope. A condition variable may release and reacquire it.
class SLIPSTREAM_SCOPED_CAPABILITY Lock {
 public:
  explicit Lock(Mutex& mutex) SLIPSTREAM_ACQUIRE(mutex) : mutex_(mutex) { mutex_.lock(); }
  ~Lock() SLIPSTREAM_RELEASE() { mutex_.unlock(); }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

  /// Only std::condition_variable_any may call these two.
  void lock() SLIPSTREAM_NO_THREAD_SAFETY_ANALYSIS { mutex_.lock(); }
  void unlock() SLIPSTREAM_NO_THREAD_SAFETY_ANALYSIS { mutex_.unlock(); }

 private:
  Mutex& mutex_;
};

/// Wait in a `while` loop around the condition, not with a predicate lambda: the thread-safety
/// analysis does not know that the lambda runs with the lock held.
using ConditionVariable = std::condition_variable_any;

}  // namespace slipstream
