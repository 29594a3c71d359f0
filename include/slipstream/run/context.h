#pragma once

#include <c10/core/Device.h>

#include <memory>
#include <memory_resource>
#include <string>

#include "slipstream/core/lane.h"
#include "slipstream/plan/plan.h"

namespace slipstream {

class Fork;
class LaneThreads;
struct ForkProbe;

/// What outlives a run: streams, lane threads and page-locked memory of one device. Made once by
/// the caller (the command line makes one a process); a second run in it takes no more memory.
/// One run at a time.
class Context {
 public:
  /// "cpu", "cuda", "cuda:N" or "auto" (the first GPU, else the CPU). Throws Refused for a device
  /// that is not there, with what is. On a GPU it sets CUBLAS_WORKSPACE_CONFIG to ":4096:8" in the
  /// environment, unless it is set, without which cuBLAS is not deterministic: a program that uses
  /// cuBLAS before it makes a Context sets it itself.
  explicit Context(const std::string& device);
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  c10::Device device() const { return device_; }
  DeviceKind kind() const;

  /// The lane called `name` with this priority; made when first asked for, on its own stream.
  Lane& lane(const std::string& name, int priority);
  LaneThreads& threads();
  /// Page-locked on a GPU (kept for the next run), ordinary memory otherwise or if not `pinned`.
  std::pmr::memory_resource& host_memory(bool pinned);

  /// The streams that work on `home`, a lane of this context or of one of its forks, branches onto:
  /// of its priority, made when first needed and kept, so that no other lane's memory comes in
  /// between. May be called from several threads.
  Fork& fork(Lane& home);

  /// Makes `lane` the calling thread's while it lives, with its stream the current one (CUDA).
  class CurrentLane {
   public:
    CurrentLane(Context& context, Lane& lane);
    ~CurrentLane();
    /// The last one made of those that live on this thread; nullptr where there is none.
    static const CurrentLane* innermost();
    /// Whether its stream is the current one still; on a CPU it is.
    bool is_current() const;
    Context& context() const { return context_; }
    Lane& lane() const { return lane_; }
    CurrentLane(const CurrentLane&) = delete;
    CurrentLane& operator=(const CurrentLane&) = delete;

   private:
    struct Impl;
    Context& context_;
    Lane& lane_;
    const CurrentLane* outer_;
    std::unique_ptr<Impl> impl_;
  };

  /// For tests of order: what the forks of this context are run with; nullptr, as it begins, for
  /// nothing. Not while they run.
  void set_fork_probe(const ForkProbe* probe) { fork_probe_ = probe; }
  const ForkProbe* fork_probe() const { return fork_probe_; }

  /// Keeps `lane` busy for about `microseconds`: a spinning kernel, or sleep. For tests of order.
  void delay(Lane& lane, double microseconds);

 private:
  struct Impl;
  c10::Device device_;
  const ForkProbe* fork_probe_ = nullptr;
  std::unique_ptr<Impl> impl_;
};

}  // namespace slipstream
