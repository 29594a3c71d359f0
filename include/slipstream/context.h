#pragma once

#include <c10/core/Device.h>

#include <memory>
#include <memory_resource>
#include <string>

#include "slipstream/lane.h"
#include "slipstream/lane_threads.h"
#include "slipstream/plan.h"

namespace slipstream {

/// What outlives a run: streams, lane threads and page-locked memory of one device. Made once by
/// the caller (the command line makes one a process); a second run in it takes no more memory.
/// One run at a time.
class Context {
 public:
  /// "cpu", "cuda", "cuda:N" or "auto" (the first GPU, else the CPU). Throws Refused for a device
  /// that is not there, with what is.
  explicit Context(const std::string& device);
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  c10::Device device() const { return device_; }
  DeviceKind kind() const;

  /// The lane called `name` with this priority; made when first asked for, on its own stream.
  Lane& lane(const std::string& name, int priority);
  LaneThreads& threads() { return threads_; }
  /// Page-locked on a GPU (kept for the next run), ordinary memory otherwise or if not `pinned`.
  std::pmr::memory_resource& host_memory(bool pinned);

  /// Makes `lane` the current stream of the calling thread while it lives (CUDA; nothing on a CPU).
  class CurrentLane {
   public:
    CurrentLane(const Context& context, const Lane& lane);
    ~CurrentLane();
    CurrentLane(const CurrentLane&) = delete;
    CurrentLane& operator=(const CurrentLane&) = delete;

   private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
  };

  /// Keeps `lane` busy for about `microseconds`: a spinning kernel, or sleep. For tests of order.
  void delay(Lane& lane, double microseconds);

 private:
  struct Impl;
  c10::Device device_;
  LaneThreads threads_;
  std::unique_ptr<Impl> impl_;
};

}  // namespace slipstream
