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

/// Throws Error (DeviceLost for errors after which the context is unusable) with the source
/// position of the call and the error's name and text. Clears the last error.
void check_cuda(cudaError_t status, Where where = Where::here());

/// Properties of a GPU of this machine.
struct DeviceInfo {
  int index = 0;
  std::string name;
  int major = 0, minor = 0;  ///< compute capability
  int multiprocessors = 0;
  std::size_t memory_bytes = 0;
  std::size_t l2_bytes = 0;
  std::string pci_address;  ///< domain:bus:device.function
};

/// Returns the usable GPUs. Empty if there is none (cudaErrorNoDevice or
/// cudaErrorInsufficientDriver). Throws Error if a driver is installed but fails.
std::vector<DeviceInfo> devices();
/// Returns the driver's version as NVML reports it, such as "580.65.06", or "" without NVML.
std::string driver_version();
/// Returns the version of the CUDA runtime, such as "13.0".
std::string runtime_version();
/// Requests 32 hardware queues, CUDA's maximum, instead of 8, by setting
/// CUDA_DEVICE_MAX_CONNECTIONS unless it is set. Streams that share a queue wait for each other,
/// and nvJPEG alone uses about forty streams. Call it before the process first uses CUDA.
void ask_for_queues();
/// Returns sentences, with a remedy, on environment variables that prevent streams from overlapping
/// (CUDA_DEVICE_MAX_CONNECTIONS=1, CUDA_LAUNCH_BLOCKING=1). Empty if there are none.
std::vector<std::string> overlap_hindrances();

/// Sets the calling thread's device for a scope.
class DeviceGuard {
 public:
  explicit DeviceGuard(int device);  ///< throws Error if the device cannot be used
  /// For destructors: if the device cannot be used, the thread keeps its current one.
  DeviceGuard(int device, std::nothrow_t) noexcept;
  ~DeviceGuard();
  DeviceGuard(const DeviceGuard&) = delete;
  DeviceGuard& operator=(const DeviceGuard&) = delete;

 private:
  int previous_;
};

/// A thread that will work on only one device calls this once at its beginning: it makes the device
/// the thread's current one, and lets other threads capture CUDA graphs in any mode
/// (RelaxedCaptureScope).
void begin_thread(int device);

/// Swaps the calling thread's cudaStreamCaptureMode with `mode` (CUDA Driver API,
/// cuThreadExchangeStreamCaptureMode). Creates no context.
void exchange_capture_mode(int& mode) noexcept;

/// While it exists, CUDA calls of this thread and CUDA graph captures of other threads, in any
/// capture mode, do not make each other fail. Calls that are not allowed in a capture of this
/// thread remain errors.
class RelaxedCaptureScope {
 public:
  RelaxedCaptureScope() noexcept { exchange_capture_mode(mode_); }
  ~RelaxedCaptureScope() { exchange_capture_mode(mode_); }
  RelaxedCaptureScope(const RelaxedCaptureScope&) = delete;
  RelaxedCaptureScope& operator=(const RelaxedCaptureScope&) = delete;

 private:
  int mode_ = cudaStreamCaptureModeThreadLocal;
};

/// A borrowed stream, never the default stream: it cannot be constructed from 0 or nullptr.
class StreamView {
 public:
  explicit StreamView(cudaStream_t stream);  ///< throws std::logic_error for the default stream
  StreamView(int) = delete;
  StreamView(std::nullptr_t) = delete;
  cudaStream_t get() const { return stream_; }

 private:
  cudaStream_t stream_;
};

/// Owns a non-blocking stream, which is neither the default stream nor part of PyTorch's pool.
class Stream {
 public:
  /// A `priority` of 0 is the lowest, larger values have precedence; clamped to the range of the
  /// device.
  explicit Stream(int device, int priority = 0);
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  operator StreamView() const { return StreamView(stream_); }
  cudaStream_t get() const { return stream_; }
  int device() const { return device_; }
  /// Blocks the host until all work on the stream has finished.
  void synchronize() const;

 private:
  cudaStream_t stream_ = nullptr;
  int device_;
};

/// A lane on a CUDA stream. Marks are CUDA events. Their synchronize() blocks the host without
/// spinning: timed ones wait for an interrupt, which each recording raises, and untimed ones poll
/// every 50 microseconds. wait() on the mark of another such lane is a stream wait and never blocks
/// the host.
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
  /// Calls `enqueue` with the stream to use.
  virtual void on_stream(const std::function<void(cudaStream_t)>& enqueue) const = 0;

  int device_;
};

/// A lane that owns its stream.
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

/// A lane on streams that the caller owns: `on` calls its argument with the caller's stream at that
/// time, which may be a default stream, and with the lane's device as the current one.
class BorrowedLane final : public StreamLane {
 public:
  using OnStream = std::function<void(const std::function<void(cudaStream_t)>& enqueue)>;
  BorrowedLane(std::string name, int device, OnStream on)
      : StreamLane(std::move(name), device), on_(std::move(on)) {}

 private:
  void on_stream(const std::function<void(cudaStream_t)>& enqueue) const override { on_(enqueue); }

  OnStream on_;
};

/// Page-locked host memory (cudaHostAlloc, portable) as a memory resource. A failed allocation
/// throws Error with the requested size and what to reduce. Thread-safe.
class PinnedMemory final : public std::pmr::memory_resource {
 public:
  /// Number of bytes allocated and not yet freed.
  std::size_t bytes_in_use() const { return in_use_bytes_.load(); }

 private:
  void* do_allocate(std::size_t bytes, std::size_t alignment) override;
  void do_deallocate(void* pointer, std::size_t bytes, std::size_t alignment) override;
  bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override;

  std::atomic<std::size_t> in_use_bytes_{0};
};

/// Copies between page-locked host memory and the device, asynchronously on `stream`. The source
/// must not change, and both must stay allocated, until the copy has run.
void copy_async(void* to, const void* from, std::size_t bytes, StreamView stream);

/// Keeps `stream` busy for about `microseconds` (0 to 10 s) without touching memory, by a kernel of
/// one thread that watches the device's nanosecond clock. Asynchronous. For tests of ordering.
/// REQUIRES, like all kernels here: the calling thread's current device is the stream's.
void delay_async(double microseconds, StreamView stream);

/// Adds the 64-bit digest of `bytes` bytes of device memory at `data` to `*digest`. `data` may have
/// any alignment (16 bytes is fastest) and any value if `bytes` is 0. `digest` is device memory,
/// 8-byte aligned, and set to 0 by the caller. Asynchronous on `stream`. The result has the same
/// bits as slipstream::fingerprint() on the host.
void fingerprint_async(const void* data, std::size_t bytes, std::uint64_t* digest,
                       StreamView stream);

/// Does what unpack() does, in device memory (`block` aligned to 256 bytes), with one kernel for
/// every sixteen fields, asynchronously on `stream`. Also reads and writes memory after each field,
/// up to the next multiple of 256 bytes.
void unpack_async(std::span<const PackedField> fields, std::byte* block, StreamView stream);

}  // namespace slipstream::cuda
