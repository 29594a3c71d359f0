#include "slipstream/run/context.h"

#include <ATen/Context.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <chrono>
#include <cstdlib>
#include <map>
#include <mutex>
#include <optional>
#include <thread>

#include "core/fork.h"
#include "core/lane_threads.h"
#include "core/recycling_memory.h"
#include "cuda/cuda.h"
#include "run/autograd_thread.h"
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
  const std::size_t gpus = cuda::devices().size();
  if (name == "auto") return gpus > 0 ? c10::Device(c10::kCUDA, 0) : c10::Device(c10::kCPU);
  const bool numbered = name.rfind("cuda:", 0) == 0 && name.size() > 5 && name.size() < 8 &&
                        name.find_first_not_of("0123456789", 5) == std::string::npos;
  if (name != "cuda" && !numbered)
    throw Refused("unknown device '" + name + "'; known: auto, cpu, cuda, cuda:N");
  const std::size_t index = numbered ? std::stoul(name.substr(5)) : 0;
  if (index >= gpus)
    throw Refused("device '" + name + "' is not there: " + available_devices(gpus));
  return c10::Device(c10::kCUDA, static_cast<c10::DeviceIndex>(index));
}

thread_local const Context::CurrentLane* innermost_lane = nullptr;

}  // namespace

struct Context::Impl {
  LaneThreads threads;
  std::map<std::pair<std::string, int>, std::unique_ptr<Lane>> lanes;
  std::mutex forking;
  std::map<const Lane*, std::unique_ptr<Fork>> forks;  ///< guarded by `forking`
  cuda::PinnedMemory pinned;
  RecyclingMemory recycled_pinned{pinned};
  RecyclingMemory recycled{*std::pmr::get_default_resource()};
};

Context::Context(const std::string& device)
    : device_(device_named(device)), impl_(std::make_unique<Impl>()) {
  if (!device_.is_cuda()) return;
  // cuBLAS is deterministic only with a workspace of fixed size; read when its first handle is
  // made.
  setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", 0);  // NOLINT(concurrency-mt-unsafe)
  // Else the allocator of device memory is not there until the first tensor is.
  at::globalContext().lazyInitDevice(c10::kCUDA);
  bind_autograd_thread(device_);
}

Context::~Context() = default;

DeviceKind Context::kind() const { return device_.is_cuda() ? DeviceKind::cuda : DeviceKind::cpu; }

Lane& Context::lane(const std::string& name, int priority) {
  std::unique_ptr<Lane>& lane = impl_->lanes[{name, device_.is_cuda() ? priority : 0}];
  if (lane == nullptr) lane = make_lane(name, device_, priority);
  return *lane;
}

LaneThreads& Context::threads() { return impl_->threads; }

Fork& Context::fork(Lane& home) {
  const std::lock_guard lock(impl_->forking);
  std::unique_ptr<Fork>& fork = impl_->forks[&home];
  if (fork != nullptr) return *fork;
  const auto* stream = dynamic_cast<const cuda::CudaLane*>(&home);
  const int priority = stream == nullptr ? 0 : stream->priority();
  fork = std::make_unique<Fork>(home, [&home, device = device_, priority](std::size_t branch) {
    return make_lane(home.name() + " branch " + std::to_string(branch), device, priority);
  });
  return *fork;
}

std::pmr::memory_resource& Context::host_memory(bool pinned) {
  return pinned && device_.is_cuda() ? impl_->recycled_pinned : impl_->recycled;
}

void Context::delay(Lane& lane, double microseconds) {
  auto* stream = dynamic_cast<cuda::CudaLane*>(&lane);
  if (stream == nullptr) {
    std::this_thread::sleep_for(std::chrono::duration<double, std::micro>(microseconds));
    return;
  }
  const cuda::DeviceGuard device(stream->device());
  cuda::delay_async(microseconds, stream->stream());
}

struct Context::CurrentLane::Impl {
  std::optional<c10::cuda::CUDAStreamGuard> guard;
};

Context::CurrentLane::CurrentLane(Context& context, Lane& lane)
    : context_(context), lane_(lane), outer_(innermost_lane), impl_(std::make_unique<Impl>()) {
  if (const auto* stream = dynamic_cast<const cuda::CudaLane*>(&lane)) {
    impl_->guard.emplace(
        c10::cuda::getStreamFromExternal(stream->stream().get(), context.device().index()));
    bind_this_thread(context.device());
  }
  innermost_lane = this;
}

Context::CurrentLane::~CurrentLane() { innermost_lane = outer_; }

bool Context::CurrentLane::is_current() const {
  if (!impl_->guard) return true;
  const c10::cuda::CUDAStream own = impl_->guard->current_stream();
  return c10::cuda::getCurrentCUDAStream(own.device_index()) == own;
}

const Context::CurrentLane* Context::CurrentLane::innermost() { return innermost_lane; }

}  // namespace slipstream
