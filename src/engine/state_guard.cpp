#include "engine/state_guard.h"

#include <exception>

#include "engine/access.h"
#include "engine/trainer_impl.h"

namespace slipstream {

StateGuard::StateGuard(Trainer& trainer)
    : trainer_(trainer),
      restore_unsaved_(Access::of(trainer).bound.keep_unsaved()),
      state_(trainer.state()),
      generators_(trainer.context().device()) {}

StateGuard::~StateGuard() {
  if (is_over_) return;
  try {
    restore();
  } catch (const std::exception&) {
    // Happens only if the device is lost, which the propagating exception or the next use of the
    // device reports.
  }
}

void StateGuard::restore() {
  restore_unsaved_();
  trainer_.restore(state_);
  generators_.restore();
}

void StateGuard::restore_and_release() {
  is_over_ = true;
  restore();
}

}  // namespace slipstream
