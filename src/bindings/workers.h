#pragma once

#include <torch/csrc/utils/pybind.h>

namespace slipstream {

class WorkerPool;

/// Adds what python/slipstream/_workers.py calls.
void add_workers(pybind11::module_& module);

/// While it lives, its thread looks for Ctrl-C where it waits for a process of `pool` (nullptr:
/// none); that ends the wait.
class SignalsSeen {
 public:
  explicit SignalsSeen(WorkerPool* pool);
  ~SignalsSeen();
  SignalsSeen(const SignalsSeen&) = delete;
  SignalsSeen& operator=(const SignalsSeen&) = delete;

 private:
  WorkerPool* pool_;
};

}  // namespace slipstream
