#include "bindings/context_lease.h"

#include <map>
#include <mutex>

#include "slipstream/core/error.h"

namespace slipstream {
namespace {

struct ContextUse {
  std::thread::id owner;
  int held = 0;
  bool at_work = false;
};

std::mutex& changing() {
  static std::mutex mutex;
  return mutex;
}

std::map<const Context*, ContextUse>& uses() {
  static std::map<const Context*, ContextUse> all;
  return all;
}

ContextUse& find_use(const Context& context, std::thread::id owner) {
  ContextUse& use = uses().try_emplace(&context, ContextUse{owner}).first->second;
  if (use.at_work || use.owner != owner)
    throw Refused("another trainer is running on " + context.device().str() +
                  ": wait until it has finished. An iterator of predict() runs until its end, or "
                  "until it is closed");
  return use;
}

void forget_unused(const Context* context) {
  const ContextUse& use = uses().at(context);
  if (!use.at_work && use.held == 0) uses().erase(context);
}

}  // namespace

ContextLease::ContextLease(const Context& context, std::thread::id owner) : context_(&context) {
  const std::lock_guard lock(changing());
  find_use(context, owner).at_work = true;
}

ContextLease::~ContextLease() {
  const std::lock_guard lock(changing());
  uses().at(context_).at_work = false;
  forget_unused(context_);
}

ContextHold::ContextHold(const Context& context) : context_(&context) {
  const std::lock_guard lock(changing());
  ++find_use(context, std::this_thread::get_id()).held;
}

ContextHold::~ContextHold() {
  const std::lock_guard lock(changing());
  --uses().at(context_).held;
  forget_unused(context_);
}

}  // namespace slipstream
