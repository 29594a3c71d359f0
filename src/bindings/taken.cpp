#include "bindings/taken.h"

#include <map>
#include <mutex>

#include "slipstream/core/error.h"

namespace slipstream {
namespace {

struct Use {
  std::thread::id owner;
  int held = 0;
  bool at_work = false;
};

std::mutex& changing() {
  static std::mutex mutex;
  return mutex;
}

std::map<const Context*, Use>& uses() {
  static std::map<const Context*, Use> all;
  return all;
}

Use& use_of(const Context& context, std::thread::id owner) {
  Use& use = uses().try_emplace(&context, Use{owner}).first->second;
  if (use.at_work || use.owner != owner)
    throw Refused(
        "another trainer is at work on " + context.device().str() +
        ": let it end first. An iterator of predict() works until its end, or until it is "
        "closed");
  return use;
}

void forget_unused(const Context* context) {
  const Use& use = uses().at(context);
  if (!use.at_work && use.held == 0) uses().erase(context);
}

}  // namespace

Taken::Taken(const Context& context, std::thread::id owner) : context_(&context) {
  const std::lock_guard lock(changing());
  use_of(context, owner).at_work = true;
}

Taken::~Taken() {
  const std::lock_guard lock(changing());
  uses().at(context_).at_work = false;
  forget_unused(context_);
}

Held::Held(const Context& context) : context_(&context) {
  const std::lock_guard lock(changing());
  ++use_of(context, std::this_thread::get_id()).held;
}

Held::~Held() {
  const std::lock_guard lock(changing());
  --uses().at(context_).held;
  forget_unused(context_);
}

}  // namespace slipstream
