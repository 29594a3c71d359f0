#pragma once

#include <memory>
#include <string>

#include "core/lane_threads.h"
#include "slipstream/engine/context.h"

namespace slipstream {

/// Returns the only context of this process for a device ("cpu", "cuda:0"), which the first call
/// creates. It is never destroyed, because tensors may outlive the interpreter's modules. Call it
/// with the GIL, which it releases while it works. Throws Refused for a GPU if this process was
/// forked after its parent used the GPU.
std::shared_ptr<Context> get_context(const std::string& device);

/// Remembers the process that created an object with threads. A forked process has a copy of the
/// object but none of its threads.
class ProcessGuard {
 public:
  bool is_this_process() const;
  /// Throws Refused in another process. `what` begins the message.
  void require_this_process(const std::string& what) const;

 private:
  int process_ = current();
  static int current();
};

/// Host threads that loops use one after the other: the threads that an earlier loop returned, or
/// new ones. PyTorch and cuDNN keep memory and handles for each thread, which are then reused.
class ThreadLease {
 public:
  ThreadLease();
  /// Returns the threads. REQUIRES: they have no work. In a forked process there are none to
  /// return.
  ~ThreadLease();
  ThreadLease(const ThreadLease&) = delete;
  ThreadLease& operator=(const ThreadLease&) = delete;

  LaneThreads& threads() { return *threads_; }
  bool are_here() const { return made_in_.is_this_process(); }

 private:
  ProcessGuard made_in_;
  std::unique_ptr<LaneThreads> threads_;
};

}  // namespace slipstream
