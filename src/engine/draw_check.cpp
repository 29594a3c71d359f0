#include "engine/draw_check.h"

#include <ATen/Context.h>
#include <ATen/ops/equal.h>

#include <algorithm>
#include <mutex>

#include "slipstream/core/error.h"

namespace slipstream {

std::vector<c10::Device> drawing_devices(c10::Device device) {
  std::vector<c10::Device> all = {c10::Device(c10::kCPU)};
  if (device.is_cuda()) all.push_back(device);
  return all;
}

at::Tensor generator_state(c10::Device device) {
  at::Generator generator = at::globalContext().defaultGenerator(device);
  const std::lock_guard lock(generator.mutex());
  return generator.get_state();
}

GeneratorStates::GeneratorStates(c10::Device device) {
  for (const c10::Device each : drawing_devices(device))
    states_.emplace_back(at::globalContext().defaultGenerator(each), generator_state(each));
}

void GeneratorStates::restore() const {
  for (const auto& [generator, state] : states_) {
    at::Generator changed = generator;
    const std::lock_guard lock(changed.mutex());
    changed.set_state(state);
  }
}

DrawCheck::DrawCheck(c10::Device device) : device_(device), before_(states()) {}

void DrawCheck::expect_none() const {
  const auto same = [](const at::Tensor& a, const at::Tensor& b) { return a.equal(b); };
  const auto now = states();
  if (std::equal(before_.begin(), before_.end(), now.begin(), same)) return;
  throw Error(
      "it used random numbers from PyTorch's default generator, so they would depend on the plan; "
      "use a separate generator, seeded from Batch::number()");
}

std::vector<at::Tensor> DrawCheck::states() const {
  std::vector<at::Tensor> states;
  for (const c10::Device device : drawing_devices(device_))
    states.push_back(generator_state(device));
  return states;
}

}  // namespace slipstream
