#pragma once

#include <thread>

#include "slipstream/engine/context.h"

namespace slipstream {

/// A context for one run while it lives: its lanes are those of one at a time. Throws Refused where
/// another runs, or another thread holds it.
class ContextLease {
 public:
  explicit ContextLease(const Context& context, std::thread::id owner = std::this_thread::get_id());
  ~ContextLease();
  ContextLease(const ContextLease&) = delete;
  ContextLease& operator=(const ContextLease&) = delete;

 private:
  const Context* context_;
};

/// A context for the runs of one thread while it lives. Throws as ContextLease does.
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
