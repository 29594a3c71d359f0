#pragma once

#include <torch/csrc/utils/pybind.h>

namespace slipstream {

class WorkerPool;

/// Adds what python/slipstream/_workers.py calls.
void add_workers(pybind11::module_& module);

/// While it lives, who waits for a process of `pool` (nullptr: none) looks for Ctrl-C, which ends
/// the wait. For the thread that runs Python's main program.
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
