#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <memory_resource>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "core/packed_field.h"
#include "slipstream/core/error.h"
#include "slipstream/core/lane.h"

namespace slipstream::cuda {

/// Throws Error (DeviceLost for errors after which the context is unusable) with the call's place,
/// the error's name and text; clears the last error.
void check_cuda(cudaError_t status, Where where = Where::here());

/// What a GPU of this machine is.
struct DeviceInfo {
  int index = 0;
  std::string name;
  int major = 0, minor = 0;  ///< compute capability
  int multiprocessors = 0;
  std::size_t memory_bytes = 0;
  std::size_t l2_bytes = 0;
  std::string pci_address;  ///< domain:bus:device.function
};

/// The GPUs that can be used; empty where there is none (cudaErrorNoDevice or
/// cudaErrorInsufficientDriver). Throws Error for a driver that is there but fails.
std::vector<DeviceInfo> devices();
/// The driver's own version, "580.65.06", as NVML tells it; "" where there is no NVML.
std::string driver_version();
/// Of the CUDA runtime, "13.0".
std::string runtime_version();
/// Asks for 32 queues of the device, CUDA's most, instead of 8, so that streams do not wait for one
/// another because they share one: sets CUDA_DEVICE_MAX_CONNECTIONS where it is not set. Before the
/// process's first use of CUDA.
void ask_for_queues();
/// What in the environment keeps streams from overlapping (CUDA_DEVICE_MAX_CONNECTIONS=1,
/// CUDA_LAUNCH_BLOCKING=1), as sentences with the remedy; empty when nothing does.
std::vector<std::string> overlap_hindrances();

/// Sets the calling thread's device for a scope.
class DeviceGuard {
 public:
  explicit DeviceGuard(int device);  ///< throws Error where the device cannot be used
  /// For destructors: where the device cannot be used, the thread keeps its own.
  DeviceGuard(int device, std::nothrow_t) noexcept;
  ~DeviceGuard();
  DeviceGuard(const DeviceGuard&) = delete;
  DeviceGuard& operator=(const DeviceGuard&) = delete;

 private:
  int previous_;
};

/// To be called first by a thread that will work on one device alone: the device is the thread's
/// from now on, and other threads may capture CUDA graphs in whatever mode (RelaxedCaptureScope).
void begin_thread(int device);

/// Gives the calling thread `mode`, a cudaStreamCaptureMode, and sets `mode` to the one that it had
/// (CUDA Driver API, cuThreadExchangeStreamCaptureMode). Makes no context.
void exchange_capture_mode(int& mode) noexcept;

/// While it lives, what the calling thread does and CUDA graphs that other threads capture, in
/// whatever mode, do not make each other fail. What may not be done in a capture of this thread
/// stays an error.
class RelaxedCaptureScope {
 public:
  RelaxedCaptureScope() noexcept { exchange_capture_mode(mode_); }
  ~RelaxedCaptureScope() { exchange_capture_mode(mode_); }
  RelaxedCaptureScope(const RelaxedCaptureScope&) = delete;
  RelaxedCaptureScope& operator=(const RelaxedCaptureScope&) = delete;

 private:
  int mode_ = cudaStreamCaptureModeThreadLocal;
};

/// Borrowed stream. Never the default stream: it cannot be made from 0 or nullptr.
class StreamView {
 public:
  explicit StreamView(cudaStream_t stream);  ///< throws std::logic_error for the default stream
  StreamView(int) = delete;
  StreamView(std::nullptr_t) = delete;
  cudaStream_t get() const { return stream_; }

 private:
  cudaStream_t stream_;
};

/// Owns a non-blocking stream of its own: neither the default stream nor one of PyTorch's pool.
class Stream {
 public:
  /// priority: 0 is the lowest, larger values go first; clamped to what the device has.
  explicit Stream(int device, int priority = 0);
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  operator StreamView() const { return StreamView(stream_); }
  cudaStream_t get() const { return stream_; }
  int device() const { return device_; }
  /// Blocks the host.
  void synchronize() const;

 private:
  cudaStream_t stream_ = nullptr;
  int device_;
};

/// A lane on a CUDA stream. Marks are CUDA events that block (not spin) the host in synchronize():
/// timed ones by an interrupt for each recording, untimed ones by looking every 50 microseconds.
/// wait() on the mark of another such lane is a stream wait and never blocks the host.
class StreamLane : public Lane {
 public:
  int device() const { return device_; }

  void begin_thread() final { cuda::begin_thread(device_); }
  std::unique_ptr<Mark> make_mark() final;
  std::unique_ptr<Mark> make_untimed_mark() final;
  void record(Mark& mark) final;
  void wait(const Mark& mark) final;
  void synchronize() final;

 protected:
  StreamLane(std::string name, int device) : Lane(std::move(name)), device_(device) {}

 private:
  /// Calls `enqueue` with the stream of the call under way.
  virtual void on_stream(const std::function<void(cudaStream_t)>& enqueue) const = 0;

  int device_;
};

/// On a stream of its own.
class CudaLane final : public StreamLane {
 public:
  CudaLane(std::string name, int device, int priority)
      : StreamLane(std::move(name), device), stream_(device, priority), priority_(priority) {}
  StreamView stream() const { return stream_; }
  int priority() const { return priority_; }

 private:
  void on_stream(const std::function<void(cudaStream_t)>& enqueue) const override {
    enqueue(stream_.get());
  }

  Stream stream_;
  int priority_;
};

/// On somebody else's streams: `on` calls what it is given with the stream at that time, which may
/// be a default stream, and with the lane's device as the current one.
class BorrowedLane final : public StreamLane {
 public:
  using OnStream = std::function<void(const std::function<void(cudaStream_t)>& enqueue)>;
  BorrowedLane(std::string name, int device, OnStream on)
      : StreamLane(std::move(name), device), on_(std::move(on)) {}

 private:
  void on_stream(const std::function<void(cudaStream_t)>& enqueue) const override { on_(enqueue); }

  OnStream on_;
};

/// Page-locked host memory (cudaHostAlloc, portable) as a memory resource. A failed allocation is
/// an Error that says how much was asked for and what to lower.
class PinnedMemory final : public std::pmr::memory_resource {
 public:
  /// Bytes handed out and not yet given back.
  std::size_t bytes_in_use() const { return in_use_bytes_.load(); }

 private:
  void* do_allocate(std::size_t bytes, std::size_t alignment) override;
  void do_deallocate(void* pointer, std::size_t bytes, std::size_t alignment) override;
  bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override;

  std::atomic<std::size_t> in_use_bytes_{0};
};

/// Copies pinned host memory to the device, or back; asynchronous on `stream`. The source must stay
/// unchanged, and both must stay allocated, until work enqueued after this has run.
void copy_async(void* to, const void* from, std::size_t bytes, StreamView stream);

/// Keeps `stream` busy for about `microseconds` (0 to 10 s) without touching memory: a kernel of
/// one thread that watches the device's nanosecond clock. Asynchronous. For tests of ordering.
/// REQUIRES, like all kernels here: the calling thread's device is the stream's.
void delay_async(double microseconds, StreamView stream);

/// Adds the 64-bit digest of `bytes` bytes of device memory at `data` (aligned in any way, fastest
/// to 16 bytes; anything when `bytes` is 0) to `*digest` (device memory, 8-byte aligned, set to 0
/// by the caller): one pass, asynchronous on `stream`; the same bits as slipstream::fingerprint on
/// the host.
void fingerprint_async(const void* data, std::size_t bytes, std::uint64_t* digest,
                       StreamView stream);

/// What unpack() does, in device memory (`block` aligned to 256 bytes): one kernel for every
/// sixteen fields, asynchronous on `stream`. Memory up to the next multiple of 256 bytes behind
/// each field is read and written too.
void unpack_async(std::span<const PackedField> fields, std::byte* block, StreamView stream);

}  // namespace slipstream::cuda
