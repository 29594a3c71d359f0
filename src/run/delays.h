#pragma once

#include "core/fork.h"
#include "core/schedule.h"
#include "slipstream/run/context.h"

namespace slipstream {

/// Runs a context's forks with a probe while it lives.
class ProbedForks {
 public:
  ProbedForks(Context& context, const ForkProbe& probe) : context_(context) {
    context.set_fork_probe(&probe);
  }
  ~ProbedForks() { context_.set_fork_probe(nullptr); }
  ProbedForks(const ProbedForks&) = delete;
  ProbedForks& operator=(const ProbedForks&) = delete;

 private:
  Context& context_;
};

}  // namespace slipstream
