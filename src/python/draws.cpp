#include "python/draws.h"

#include <ATen/Context.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>

#include <pthread.h>

#include <array>
#include <cstring>
#include <mutex>

#include "core/fingerprint.h"
#include "python/loop_error.h"
#include "slipstream/core/error.h"

namespace slipstream {
namespace {

bool same(const at::Tensor& a, const at::Tensor& b) {
  return a.nbytes() == b.nbytes() &&
         std::memcmp(a.const_data_ptr(), b.const_data_ptr(), a.nbytes()) == 0;
}

std::mutex& generator_mutex() {
  at::Generator generator = at::globalContext().defaultGenerator(c10::kCPU);
  return generator.mutex();
}

}  // namespace

void prepare_for_forks() {
  at::zeros({1}).copy_(at::ones({1}));  // chooses kernels
  const int error =
      pthread_atfork([] { generator_mutex().lock(); }, [] { generator_mutex().unlock(); },
                     [] { generator_mutex().unlock(); });
  ensure(error == 0, "handlers of forks can be registered");
}

DrawOrder::DrawOrder(c10::Device device) {
  for (const c10::Device each : drawing_devices(device)) generators_.push_back({each, {}, ""});
}

std::string DrawOrder::conflict(const Watched& generator, const std::string& who) {
  const std::string& other = generator.drawer;
  const std::string text =
      other + " and " + who + " both draw random numbers from PyTorch's generator of " +
      generator.device.str() +
      ". Ahead of the loop's body they would draw in another order than in a plain loop. Remedy: ";
  if (other == kLoader || who == kLoader)
    return text + "let the loader draw from a generator of its own (generator=...), or in workers";
  return text + "give the stage numbers of its own, slipstream.Stage(..., seed=1)";
}

void DrawOrder::begin() {
  for (Watched& each : generators_) each.before = generator_state(each.device);
}

void DrawOrder::end(const std::string& who) {
  for (Watched& each : generators_) {
    if (!each.before.defined() || same(each.before, generator_state(each.device))) continue;
    if (!each.drawer.empty() && each.drawer != who) throw LoopCheckFailed(conflict(each, who));
    each.drawer = who;
  }
}

KeyedDraws::KeyedDraws(c10::Device device, std::uint64_t seed, std::uint64_t number)
    : before_(device) {
  const std::array key = {seed, number};
  const std::uint64_t digest = fingerprint(key.data(), sizeof key);
  for (const c10::Device each : drawing_devices(device)) {
    at::Generator generator = at::globalContext().defaultGenerator(each);
    const std::lock_guard lock(generator.mutex());
    generator.set_current_seed(digest);
  }
}

KeyedDraws::~KeyedDraws() { before_.put_back(); }

}  // namespace slipstream
