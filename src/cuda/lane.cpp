#include <atomic>
#include <chrono>
#include <thread>

#include "cuda/cuda.h"
#include "cuda/teardown.h"

namespace slipstream::cuda {
namespace {

constexpr std::chrono::microseconds kPoll(50);

class CudaMark final : public Mark {
 public:
  CudaMark(int device, bool is_timed) : device_(device), is_timed_(is_timed) {
    // An event belongs to the device that is current when it is created.
    const DeviceGuard guard(device);
    // Untimed events are cheaper to record. They are polled in synchronize(), so they need no
    // interrupt.
    check_cuda(cudaEventCreateWithFlags(&event_,
                                        is_timed ? cudaEventBlockingSync : cudaEventDisableTiming));
  }
  ~CudaMark() override { ignore_failure(cudaEventDestroy(event_)); }

  void record(cudaStream_t stream, int device) {
    ensure(device == device_, "a lane records marks of its own device");
    check_cuda(cudaEventRecord(event_, stream));
    // Set after cudaEventRecord() has returned. Another thread that reads true with acquire order
    // may therefore use the event.
    recorded_.store(true, std::memory_order_release);
  }

  cudaEvent_t recorded_event() const {
    // Waiting for an event that was never recorded succeeds at once, without an error.
    ensure(recorded_.load(std::memory_order_acquire), "a mark is recorded before it is used");
    return event_;
  }

  bool reached() const override {
    // Otherwise this call would end a CUDA graph that another thread captures in the default mode.
    const RelaxedCaptureScope captures;
    const cudaError_t status = cudaEventQuery(recorded_event());
    if (status != cudaErrorNotReady) {
      check_cuda(status);
      return true;
    }
    // CUDA stores also this status, which is not an error, and the next unrelated call would return
    // it.
    static_cast<void>(cudaGetLastError());
    return false;
  }

  void synchronize() const override {
    const RelaxedCaptureScope captures;
    if (is_timed_) return check_cuda(cudaEventSynchronize(recorded_event()));
    while (!reached()) std::this_thread::sleep_for(kPoll);
  }

  double seconds_after(const Mark& earlier) const override {
    const auto* from = dynamic_cast<const CudaMark*>(&earlier);
    ensure(from != nullptr && from->device_ == device_, "marks of one device are compared");
    ensure(is_timed_ && from->is_timed_, "timed marks are compared");
    float milliseconds = 0;
    check_cuda(cudaEventElapsedTime(&milliseconds, from->recorded_event(), recorded_event()));
    return static_cast<double>(milliseconds) * 1e-3;
  }

 private:
  cudaEvent_t event_ = nullptr;
  int device_;
  bool is_timed_;
  std::atomic<bool> recorded_{false};
};

}  // namespace

std::unique_ptr<Mark> StreamLane::make_mark() { return std::make_unique<CudaMark>(device_, true); }

std::unique_ptr<Mark> StreamLane::make_untimed_mark() {
  return std::make_unique<CudaMark>(device_, false);
}

void StreamLane::record(Mark& mark) {
  auto* own = dynamic_cast<CudaMark*>(&mark);
  ensure(own != nullptr, "a lane records its own marks");
  on_stream([&](cudaStream_t stream) { own->record(stream, device_); });
}

void StreamLane::wait(const Mark& mark) {
  const auto* event = dynamic_cast<const CudaMark*>(&mark);
  // The mark of a host lane: a stream cannot wait for it, so the calling thread does.
  if (event == nullptr) {
    mark.synchronize();
    return;
  }
  on_stream([&](cudaStream_t stream) {
    check_cuda(cudaStreamWaitEvent(stream, event->recorded_event(), 0));
  });
}

void StreamLane::synchronize() {
  const RelaxedCaptureScope captures;
  on_stream([](cudaStream_t stream) { check_cuda(cudaStreamSynchronize(stream)); });
}

}  // namespace slipstream::cuda
