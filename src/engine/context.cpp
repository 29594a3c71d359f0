#include "slipstream/engine/context.h"

#include <ATen/Context.h>

#include <cstdlib>
#include <map>
#include <mutex>

#include "core/fork.h"
#include "core/lane_threads.h"
#include "core/recycling_memory.h"
#include "cuda/cuda.h"
#include "engine/access.h"
#include "engine/autograd_thread.h"
#include "engine/context_parts.h"
#include "slipstream/core/error.h"

namespace slipstream {
namespace {

std::string available_devices(std::size_t gpus) {
  if (gpus == 0) return "this machine has no usable GPU; use --device cpu";
  return "there are " + std::to_string(gpus) + " GPUs, cuda:0 to cuda:" + std::to_string(gpus - 1);
}

std::unique_ptr<Lane> make_lane(const std::string& name, c10::Device device, int priority) {
  if (device.is_cuda()) return std::make_unique<cuda::CudaLane>(name, device.index(), priority);
  return std::make_unique<HostLane>(name);
}

c10::Device device_named(const std::string& name) {
  if (name == "cpu") return c10::Device(c10::kCPU);
  cuda::ask_for_queues();
  const std::size_t gpus = cuda::devices().size();
  if (name == "auto") return gpus > 0 ? c10::Device(c10::kCUDA, 0) : c10::Device(c10::kCPU);
  const bool numbered = name.rfind("cuda:", 0) == 0 && name.size() > 5 && name.size() < 8 &&
                        name.find_first_not_of("0123456789", 5) == std::string::npos;
  if (name != "cuda" && !numbered)
    throw Refused("unknown device '" + name + "'; known: auto, cpu, cuda, cuda:N");
  const std::size_t index = numbered ? std::stoul(name.substr(5)) : 0;
  if (index >= gpus)
    throw Refused("device '" + name + "' is not available: " + available_devices(gpus));
  return c10::Device(c10::kCUDA, static_cast<c10::DeviceIndex>(index));
}

}  // namespace

struct Context::Impl {
  LaneThreads threads;
  std::mutex making;
  std::map<std::pair<std::string, int>, std::unique_ptr<Lane>> lanes;  ///< guarded by `making`
  std::mutex forking;
  std::map<const Lane*, std::unique_ptr<Fork>> forks;  ///< guarded by `forking`
  const ForkProbe* fork_probe = nullptr;
  cuda::PinnedMemory pinned;
  RecyclingMemory recycled_pinned{pinned};
  RecyclingMemory recycled{*std::pmr::get_default_resource()};
};

Context::Context(const std::string& device)
    : device_(device_named(device)), impl_(std::make_unique<Impl>()) {
  if (!device_.is_cuda()) return;
  // cuBLAS is deterministic only with a workspace of fixed size. It reads this variable when the
  // first cuBLAS handle is created.
  setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", 0);  // NOLINT(concurrency-mt-unsafe)
  // PyTorch would otherwise create its device allocator with the first tensor, but memory is
  // requested from it before that.
  at::globalContext().lazyInitDevice(c10::kCUDA);
  bind_autograd_thread(device_);
}

Context::~Context() = default;

DeviceKind Context::kind() const { return device_.is_cuda() ? DeviceKind::cuda : DeviceKind::cpu; }

Lane& get_lane(Context& context, const std::string& name, int priority) {
  const c10::Device device = context.device();
  auto& parts = Access::of(context);
  const std::lock_guard lock(parts.making);
  // A host lane has no priority, so plans with different priorities share it.
  std::unique_ptr<Lane>& lane = parts.lanes[{name, device.is_cuda() ? priority : 0}];
  if (lane == nullptr) lane = make_lane(name, device, priority);
  return *lane;
}

std::pmr::memory_resource& get_host_memory(Context& context, bool pinned) {
  auto& parts = Access::of(context);
  return pinned && context.device().is_cuda() ? parts.recycled_pinned : parts.recycled;
}

LaneThreads& get_threads(Context& context) { return Access::of(context).threads; }

Fork& get_fork(Context& context, Lane& home) {
  auto& parts = Access::of(context);
  const std::lock_guard lock(parts.forking);
  std::unique_ptr<Fork>& fork = parts.forks[&home];
  if (fork != nullptr) return *fork;
  const auto* stream = dynamic_cast<const cuda::CudaLane*>(&home);
  const int priority = stream == nullptr ? 0 : stream->priority();
  fork = std::make_unique<Fork>(
      home, [&home, device = context.device(), priority](std::size_t branch) {
        return make_lane(home.name() + " branch " + std::to_string(branch), device, priority);
      });
  return *fork;
}

void set_fork_probe(Context& context, const ForkProbe* probe) {
  Access::of(context).fork_probe = probe;
}

const ForkProbe* get_fork_probe(Context& context) { return Access::of(context).fork_probe; }

}  // namespace slipstream
