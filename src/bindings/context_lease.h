#pragma once

#include <thread>

#include "slipstream/engine/context.h"

namespace slipstream {

/// Reserves a context for one run, during its lifetime: only one run at a time may use its lanes.
/// The constructor throws Refused if another run is active or another thread holds the context.
class ContextLease {
 public:
  explicit ContextLease(const Context& context, std::thread::id owner = std::this_thread::get_id());
  ~ContextLease();
  ContextLease(const ContextLease&) = delete;
  ContextLease& operator=(const ContextLease&) = delete;

 private:
  const Context* context_;
};

/// Reserves a context for all runs of the current thread, during its lifetime. The constructor
/// throws as that of ContextLease.
class ContextHold {
 public:
  explicit ContextHold(const Context& context);
  ~ContextHold();
  ContextHold(const ContextHold&) = delete;
  ContextHold& operator=(const ContextHold&) = delete;

 private:
  const Context* context_;
};

}  // namespace slipstream
