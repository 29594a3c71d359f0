#pragma once

#include <memory>
#include <string>

#include "core/lane_threads.h"
#include "slipstream/engine/context.h"

namespace slipstream {

/// The one context of this process for a device ("cpu", "cuda:0"), made at the first call. Never
/// destroyed, for tensors may outlive the interpreter's modules. Call it with Python's lock, which
/// it gives up meanwhile. Throws Refused for a GPU that the process this one was forked from used.
std::shared_ptr<Context> get_context(const std::string& device);

/// The process that made something which has threads: a forked one has none of them.
class ProcessGuard {
 public:
  bool is_this_process() const;
  /// Throws Refused where it is another one.
  void require_this_process(const std::string& what) const;

 private:
  int process_ = current();
  static int current();
};

/// Host threads for one loop after another: those that an earlier loop gave back, with what PyTorch
/// and cuDNN keep for each, or new ones.
class ThreadLease {
 public:
  ThreadLease();
  /// Gives them back. REQUIRES: they have no work. A forked process has none and gives none back.
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
