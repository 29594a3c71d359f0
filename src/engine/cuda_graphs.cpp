#include <ATen/cuda/CUDAGraph.h>
#include <ATen/ops/zeros.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAStream.h>
#include <c10/util/Exception.h>

#include <atomic>
#include <exception>
#include <utility>

#include "cuda/cuda.h"
#include "engine/graph_recorder.h"

namespace slipstream {
namespace {

namespace allocator = c10::cuda::CUDACachingAllocator;
using Pool = decltype(at::cuda::graph_pool_handle());

// In this mode, calls of other threads, such as the page-locking of a loader's memory, do not make
// a capture fail.
constexpr cudaStreamCaptureMode kMode = cudaStreamCaptureModeThreadLocal;

/// Returns the id of the capture that `stream` is part of; 0 if there is none.
unsigned long long find_capture(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  unsigned long long id = 0;
  if (cudaStreamGetCaptureInfo(stream, &status, &id) != cudaSuccess) {
    static_cast<void>(cudaGetLastError());
    return 0;
  }
  return status == cudaStreamCaptureStatusActive ? id : 0;
}

/// A memory pool of PyTorch's allocator, which is used while an object of this class or of
/// GraphWork exists.
class PoolUse {
 public:
  /// Starts to allocate from the pool what is allocated on streams of the capture `id`.
  PoolUse(c10::DeviceIndex device, Pool pool, const std::atomic<unsigned long long>& id)
      : device_(device), pool_(pool) {
    allocator::beginAllocateToPool(device, pool, [&id](cudaStream_t stream) {
      const unsigned long long own = id.load();
      return own != 0 && find_capture(stream) == own;
    });
  }
  ~PoolUse() { allocator::releasePool(device_, pool_); }
  PoolUse(const PoolUse&) = delete;
  PoolUse& operator=(const PoolUse&) = delete;

  void end() { allocator::endAllocateToPool(device_, pool_); }

 private:
  c10::DeviceIndex device_;
  Pool pool_;
};

class GraphWork final : public RecordedWork {
 public:
  GraphWork(cudaGraph_t graph, std::unique_ptr<PoolUse> pool) : pool_(std::move(pool)) {
    cuda::check_cuda(cudaGraphInstantiateWithFlags(&executable_, graph, 0));
  }
  ~GraphWork() override {
    const cuda::RelaxedCaptureScope captures;
    if (cudaGraphExecDestroy(executable_) != cudaSuccess) static_cast<void>(cudaGetLastError());
  }
  GraphWork(const GraphWork&) = delete;
  GraphWork& operator=(const GraphWork&) = delete;

  void replay() override {
    cuda::check_cuda(cudaGraphLaunch(executable_, c10::cuda::getCurrentCUDAStream().stream()));
  }

 private:
  std::unique_ptr<PoolUse> pool_;
  cudaGraphExec_t executable_ = nullptr;
};

/// Captures with CUDA's functions. at::cuda::CUDAGraph is not used, because it changes the state of
/// PyTorch's default generator, which the training lane may use during the capture.
class StageRecorder final : public GraphRecorder {
 public:
  explicit StageRecorder(c10::Device device) : device_(device) {}

  std::unique_ptr<RecordedWork> record(const Work& work) override {
    const cudaStream_t stream = c10::cuda::getCurrentCUDAStream(device_.index()).stream();
    std::atomic<unsigned long long> id{0};
    // The allocator learns of the capture first: memory that is freed on this stream meanwhile must
    // not be marked with an event, which a capture does not allow.
    auto pool = std::make_unique<PoolUse>(device_.index(), at::cuda::graph_pool_handle(), id);
    cudaGraph_t graph = nullptr;
    std::exception_ptr failure;
    cudaError_t ended = cudaStreamBeginCapture(stream, kMode);
    if (ended == cudaSuccess) {
      id = find_capture(stream);
      try {
        work();
      } catch (...) {
        failure = std::current_exception();
      }
      ended = cudaStreamEndCapture(stream, &graph);
    }
    pool->end();
    if (failure == nullptr && ended == cudaSuccess) return instantiated(graph, std::move(pool));
    if (graph != nullptr) static_cast<void>(cudaGraphDestroy(graph));
    static_cast<void>(cudaGetLastError());
    // If the work failed, the end of the capture only reports that the capture is invalid.
    if (failure != nullptr) std::rethrow_exception(failure);
    cuda::check_cuda(ended);
    throw Error("the capture ended without a graph");
  }

 private:
  static std::unique_ptr<RecordedWork> instantiated(cudaGraph_t graph,
                                                    std::unique_ptr<PoolUse> pool) {
    struct Destroyed {
      cudaGraph_t graph;
      ~Destroyed() { static_cast<void>(cudaGraphDestroy(graph)); }
    } const destroyed{graph};
    return std::make_unique<GraphWork>(graph, std::move(pool));
  }

  c10::Device device_;
};

/// Holds the memory pool of a trainer's graphs. The pool can be used again while a graph of it
/// exists.
class TrainingWork final : public RecordedWork {
 public:
  TrainingWork(std::unique_ptr<at::cuda::CUDAGraph> graph, std::shared_ptr<const Pool> pool)
      : pool_(std::move(pool)), graph_(std::move(graph)) {}
  void replay() override { graph_->replay(); }

 private:
  std::shared_ptr<const Pool> pool_;
  std::unique_ptr<at::cuda::CUDAGraph> graph_;
};

/// Captures with at::cuda::CUDAGraph, which gives each replay the numbers of PyTorch's default
/// generator that the work itself would get.
class TrainingRecorder final : public GraphRecorder {
 public:
  explicit TrainingRecorder(c10::Device device)
      : device_(device), element_(at::zeros({1}, at::dtype(at::kFloat).device(device))) {}

  std::unique_ptr<RecordedWork> record(const Work& work) override {
    std::shared_ptr<const Pool> pool = pool_.lock();
    if (pool == nullptr) pool = std::make_shared<const Pool>(at::cuda::graph_pool_handle());
    auto graph = std::make_unique<at::cuda::CUDAGraph>();
    std::exception_ptr failure;
    bool is_invalid = false;
    try {
      graph->capture_begin(*pool, kMode);
      try {
        work();
      } catch (...) {
        failure = std::current_exception();
      }
      graph->capture_end();
    } catch (...) {
      is_invalid = true;
      if (failure == nullptr) failure = std::current_exception();
    }
    if (failure == nullptr) {
      pool_ = pool;
      return std::make_unique<TrainingWork>(std::move(graph), std::move(pool));
    }
    graph.reset();
    if (is_invalid) recover(*pool);
    std::rethrow_exception(failure);
  }

 private:
  /// Ends what some versions of PyTorch leave open if the end of a capture fails: allocations from
  /// the pool, and the generator's mode in which it generates numbers only for a capture.
  void recover(const Pool& pool) const {
    static_cast<void>(cudaGetLastError());
    try {
      allocator::endAllocateToPool(device_.index(), pool);
      allocator::releasePool(device_.index(), pool);
    } catch (const c10::Error&) {
      // Thrown if PyTorch has ended them.
    }
    at::cuda::CUDAGraph blank;
    blank.capture_begin({0, 0}, kMode);
    element_.zero_();
    blank.capture_end();
  }

  c10::Device device_;
  at::Tensor element_;  ///< allocated in advance: after a failure there may be no memory for it
  std::weak_ptr<const Pool> pool_;
};

}  // namespace

std::unique_ptr<GraphRecorder> make_cuda_recorder(c10::Device device, bool for_training) {
  if (for_training) return std::make_unique<TrainingRecorder>(device);
  return std::make_unique<StageRecorder>(device);
}

}  // namespace slipstream
