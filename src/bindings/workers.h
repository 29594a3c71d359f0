#pragma once

#include <torch/csrc/utils/pybind.h>

namespace slipstream {

class WorkerPool;

/// Adds what python/slipstream/_workers.py calls.
void add_workers(pybind11::module_& module);

/// While it lives, its thread looks for Ctrl-C where it waits for a process of `pool` (nullptr:
/// none); that ends the wait.
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
