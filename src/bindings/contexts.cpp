#include "bindings/contexts.h"

#include <torch/csrc/utils/pybind.h>
#include <unistd.h>

#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "bindings/gil.h"
#include "slipstream/core/error.h"

namespace slipstream {
namespace {

struct ContextEntry {
  std::shared_ptr<Context> context;
  ProcessGuard in;
};

/// Threads that no loop uses at present. The list is never destroyed. Needs the GIL.
std::vector<std::unique_ptr<LaneThreads>>& idle_threads() {
  static auto& all = *new std::pair<ProcessGuard, std::vector<std::unique_ptr<LaneThreads>>>;
  if (!all.first.is_this_process()) {
    // Leaked: a fork cannot join its parent's threads.
    static_cast<void>(new auto(std::move(all.second)));
    all = {};
  }
  return all.second;
}

}  // namespace

ThreadLease::ThreadLease() {
  auto& idle = idle_threads();
  if (idle.empty()) idle.push_back(std::make_unique<LaneThreads>());
  threads_ = std::move(idle.back());
  idle.pop_back();
}

ThreadLease::~ThreadLease() {
  if (are_here())
    idle_threads().push_back(std::move(threads_));
  else
    static_cast<void>(threads_.release());
}

std::shared_ptr<Context> get_context(const std::string& device) {
  const GilRelease unlocked;  // creating a context starts PyTorch's autograd, which needs the GIL
  static std::mutex making;
  static auto& contexts = *new std::map<std::string, ContextEntry>;
  const std::lock_guard lock(making);
  const auto known = contexts.find(device);
  if (known != contexts.end() && known->second.in.is_this_process()) return known->second.context;
  if (known != contexts.end() && known->second.context->kind() == DeviceKind::cuda)
    throw Refused(device +
                  " was in use when this process was forked, and CUDA cannot be used in a forked "
                  "process: start the process with 'spawn' or 'forkserver'");
  const auto made = std::make_shared<Context>(device);
  // Leaked: its destructor would join threads that only the parent has.
  if (known != contexts.end()) static_cast<void>(new auto(known->second.context));
  contexts[device] = {made, {}};
  return made;
}

bool ProcessGuard::is_this_process() const { return process_ == current(); }

void ProcessGuard::require_this_process(const std::string& what) const {
  if (!is_this_process())
    throw Refused(what +
                  " was created in the process that this one was forked from, whose threads do not "
                  "exist here: create another one in this process");
}

int ProcessGuard::current() { return getpid(); }

}  // namespace slipstream
