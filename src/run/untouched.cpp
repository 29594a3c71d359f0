#include "run/untouched.h"

#include <ATen/Context.h>

#include <exception>
#include <mutex>

namespace slipstream {

Untouched::Untouched(Trainer& trainer) : trainer_(trainer), state_(trainer.state()) {
  generators_.push_back(at::globalContext().defaultGenerator(at::kCPU));
  if (trainer.context().kind() == DeviceKind::cuda)
    generators_.push_back(at::globalContext().defaultGenerator(trainer.context().device()));
  for (at::Generator& generator : generators_) {
    const std::lock_guard lock(generator.mutex());
    generator_states_.push_back(generator.get_state());
  }
}

Untouched::~Untouched() {
  if (is_over_) return;
  try {
    put_back();
  } catch (const std::exception&) {
    // Only where the device is lost, which the exception under way or the next use tells.
  }
}

void Untouched::put_back() {
  trainer_.restore(state_);
  for (std::size_t i = 0; i < generators_.size(); ++i) {
    const std::lock_guard lock(generators_[i].mutex());
    generators_[i].set_state(generator_states_[i]);
  }
}

void Untouched::put_back_for_good() {
  is_over_ = true;
  put_back();
}

}  // namespace slipstream
