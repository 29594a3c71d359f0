#include "engine/current_lane.h"

#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <optional>

#include "cuda/cuda.h"
#include "engine/autograd_thread.h"

namespace slipstream {
namespace {

thread_local const CurrentLane* innermost_lane = nullptr;

}  // namespace

struct CurrentLane::Impl {
  std::optional<c10::cuda::CUDAStreamGuard> guard;
};

CurrentLane::CurrentLane(Context& context, Lane& lane)
    : context_(context), lane_(lane), outer_(innermost_lane), impl_(std::make_unique<Impl>()) {
  if (const auto* stream = dynamic_cast<const cuda::CudaLane*>(&lane)) {
    impl_->guard.emplace(
        c10::cuda::getStreamFromExternal(stream->stream().get(), context.device().index()));
    // The stream guard alone does not create the CUDA context on a new thread.
    bind_this_thread(context.device());
  }
  innermost_lane = this;
}

CurrentLane::~CurrentLane() { innermost_lane = outer_; }

bool CurrentLane::is_current() const {
  if (!impl_->guard) return true;
  const c10::cuda::CUDAStream own = impl_->guard->current_stream();
  return c10::cuda::getCurrentCUDAStream(own.device_index()) == own;
}

const CurrentLane* CurrentLane::innermost() { return innermost_lane; }

}  // namespace slipstream
