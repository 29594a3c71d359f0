#include "slipstream/context.h"

#include <ATen/Context.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <chrono>
#include <map>
#include <optional>
#include <thread>

#include "slipstream/cuda.h"
#include "slipstream/error.h"
#include "slipstream/recycling_memory.h"

namespace slipstream {
namespace {

std::string available_devices(std::size_t gpus) {
  if (gpus == 0) return "this machine has no usable GPU; use --device cpu";
  return "there are " + std::to_string(gpus) + " GPUs, cuda:0 to cuda:" + std::to_string(gpus - 1);
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

}  // namespace

struct Context::Impl {
  std::map<std::pair<std::string, int>, std::unique_ptr<Lane>> lanes;
  cuda::PinnedMemory pinned;
  RecyclingMemory recycled_pinned{pinned};
  RecyclingMemory recycled{*std::pmr::get_default_resource()};
};

Context::Context(const std::string& device)
    : device_(device_named(device)), impl_(std::make_unique<Impl>()) {
  // Else the allocator of device memory is not there until the first tensor is.
  if (device_.is_cuda()) at::globalContext().lazyInitDevice(c10::kCUDA);
}

Context::~Context() = default;

DeviceKind Context::kind() const { return device_.is_cuda() ? DeviceKind::cuda : DeviceKind::cpu; }

Lane& Context::lane(const std::string& name, int priority) {
  std::unique_ptr<Lane>& lane = impl_->lanes[{name, device_.is_cuda() ? priority : 0}];
  if (lane == nullptr) {
    if (device_.is_cuda())
      lane = std::make_unique<cuda::CudaLane>(name, device_.index(), priority);
    else
      lane = std::make_unique<HostLane>(name);
  }
  return *lane;
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

Context::CurrentLane::CurrentLane(const Context& context, const Lane& lane)
    : impl_(std::make_unique<Impl>()) {
  const auto* stream = dynamic_cast<const cuda::CudaLane*>(&lane);
  if (stream == nullptr) return;
  impl_->guard.emplace(
      c10::cuda::getStreamFromExternal(stream->stream().get(), context.device().index()));
}

Context::CurrentLane::~CurrentLane() = default;

}  // namespace slipstream
