#pragma once

#include <torch/csrc/utils/pybind.h>

namespace slipstream {

class WorkerPool;

/// Adds the classes and functions that python/slipstream/_workers.py uses to the module.
void add_workers(pybind11::module_& module);

/// During its lifetime, a Ctrl-C ends the waits of its thread for a process of `pool` (nullptr:
/// none).
class SignalWaitScope {
 public:
  explicit SignalWaitScope(WorkerPool* pool);
  ~SignalWaitScope();
  SignalWaitScope(const SignalWaitScope&) = delete;
  SignalWaitScope& operator=(const SignalWaitScope&) = delete;

 private:
  WorkerPool* pool_;
};

}  // namespace slipstream
