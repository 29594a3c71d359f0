#include "engine/untouched.h"

#include <exception>

#include "engine/inside.h"
#include "engine/trainer_impl.h"

namespace slipstream {

Untouched::Untouched(Trainer& trainer)
    : trainer_(trainer),
      put_unsaved_back_(Inside::of(trainer).bound.keep_unsaved()),
      state_(trainer.state()),
      generators_(trainer.context().device()) {}

Untouched::~Untouched() {
  if (is_over_) return;
  try {
    put_back();
  } catch (const std::exception&) {
    // Only where the device is lost, which the exception under way or the next use tells.
  }
}

void Untouched::put_back() {
  put_unsaved_back_();
  trainer_.restore(state_);
  generators_.put_back();
}

void Untouched::put_back_for_good() {
  is_over_ = true;
  put_back();
}

}  // namespace slipstream
