#include "bindings/loop_meter.h"

#include <c10/cuda/CUDAStream.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bindings/gil.h"
#include "bindings/native_loader.h"
#include "core/process_times.h"
#include "core/seconds_since.h"
#include "cuda/stream_gaps.h"
#include "report/loop_watch.h"
#include "slipstream/core/error.h"

namespace slipstream {
namespace {

namespace py = pybind11;

/// Reading the times of a process takes a few microseconds. Few readings are enough, because
/// workers do the same work all the time.
constexpr double kReadEveryS = 0.25;
constexpr std::size_t kMostRead = 16;

/// Returns the times of the processes that exist.
WorkerTimes read_times(const std::vector<pid_t>& processes) {
  WorkerTimes all;
  for (const pid_t process : processes)
    if (const auto times = process_times(process)) {
      all.cpu_s += times->cpu_s;
      all.core_wait_s += times->core_wait_s;
    }
  return all;
}

/// Observes which batches have arrived from the workers of PyTorch's loader, in the attributes of
/// its iterator. In C++, because each Python function takes far longer during a training step,
/// which has filled the CPU's caches, than by itself.
class TorchQueue {
 public:
  /// The iterator's queue is `deque`, or if that is None, `free` returns the number of free places
  /// of `size`.
  TorchQueue(py::object iterator, py::object deque, py::object free, std::int64_t size)
      : iterator_(std::move(iterator)),
        deque_(std::move(deque)),
        free_(std::move(free)),
        size_(size),
        task_info_(iterator_.attr("_task_info")) {}

  /// Returns the number of batches that have arrived. Called before next().
  std::size_t count_ready() {
    arrived_ = deque_.is_none() ? size_ - free_().cast<std::int64_t>()
                                : static_cast<std::int64_t>(py::len(deque_));
    stored_ = count_stored();
    is_next_stored_ = false;
    if (stored_ > 0) {
      // An entry is (worker,) until its batch has been taken from the queue, then (worker, batch).
      const py::object next = task_info_.attr("get")(iterator_.attr("_rcvd_idx"));
      is_next_stored_ = !next.is_none() && py::len(next) == 2;
    }
    return static_cast<std::size_t>(std::max<std::int64_t>(0, arrived_ + stored_));
  }
  /// Sets whether the batch that next() has returned was ready before, and whether it was not
  /// although later ones were.
  void judge(LoopWait& wait) const {
    wait.was_ready = is_next_stored_ || count_stored() - stored_ < arrived_;
    wait.is_late = !wait.was_ready && arrived_ + stored_ > 0;
  }

 private:
  /// Returns the number of batches that were taken from the queue before an earlier one had
  /// arrived.
  std::int64_t count_stored() const {
    return static_cast<std::int64_t>(py::len(task_info_)) -
           iterator_.attr("_tasks_outstanding").cast<std::int64_t>();
  }

  py::object iterator_, deque_, free_;
  std::int64_t size_;
  py::object task_info_;
  std::int64_t arrived_ = 0, stored_ = 0;
  bool is_next_stored_ = false;
};

/// Measures the calls of next() of a loop, on the loop's thread, with the GIL. It never waits for
/// the device.
class LoopMeter {
 public:
  LoopMeter(std::string name, double every_s) : watch_(std::move(name), every_s) {}

  void begin_epoch(double created_s) {
    forget_source();
    watch_.begin_epoch(now_s(), created_s);
  }

  /// `loader_times`: Loop.loader_times() of a pipeline, or None.
  void set_source(std::vector<pid_t> processes, std::shared_ptr<NativeLoader> loader,
                  std::shared_ptr<TorchQueue> queue, py::object loader_times) {
    const bool has_workers = !processes.empty();
    processes_ = std::move(processes);
    if (processes_.size() > kMostRead) processes_.resize(kMostRead);
    queue_ = std::move(queue);
    loader_times_ = std::move(loader_times);
    loader_s_ = loader_cpu_s_ = 0;
    if (!loader_times_.is_none()) count_loader_times();
    LoopWatch::HostCounters counters;
    if (loader)
      counters = [loader = std::move(loader)] {
        const GilRelease unlocked;
        return loader->counters();
      };
    watch_.set_source(has_workers, std::move(counters));
  }

  void measure_gpu(int device) { gaps_ = std::make_unique<cuda::StreamGaps>(device); }

  /// Returns the next batch of an iterator, with the iterator's exceptions. Calls write() if lines
  /// or totals can be taken.
  py::object next(py::handle batches, py::handle write) {
    begin_wait();
    const auto batch = py::reinterpret_steal<py::object>(PyIter_Next(batches.ptr()));
    if (!batch) fail();
    if (end_wait()) write();
    return batch;
  }

  void end_epoch() {
    watch_.end_epoch();
    forget_source();
  }

  LoopWatch& watch() { return watch_; }

 private:
  double now_s() const { return seconds_since(begin_); }

  void begin_wait() {
    wait_ = {};
    if (queue_) wait_.ready = queue_->count_ready();
    with_gaps([this](cudaStream_t stream) { gaps_->begin(stream); });
    wait_.began_s = now_s();
    // If batches are ready, the call does not wait for the workers, or only for one of them.
    if (!processes_.empty() && wait_.ready.value_or(0) == 0 && wait_.began_s >= next_reading_s_) {
      next_reading_s_ = wait_.began_s + kReadEveryS;
      wait_.workers = read_times(processes_);
    }
    if (needs_cpu_time()) cpu_s_ = thread_cpu_s();
  }

  /// Returns whether lines or totals can be taken.
  bool end_wait() {
    end_next();
    if (queue_) queue_->judge(wait_);
    if (!loader_times_.is_none()) count_loader_times();
    return watch_.add(wait_);
  }

  /// Reads the times and the GPU at the end of a wait.
  void end_next() {
    if (needs_cpu_time()) wait_.cpu_s = thread_cpu_s() - cpu_s_;
    wait_.ended_s = now_s();
    if (wait_.workers) {
      const WorkerTimes before = *wait_.workers, now = read_times(processes_);
      const auto count = static_cast<double>(processes_.size());
      // A worker that ends meanwhile takes its times with it.
      wait_.workers = {count * (wait_.ended_s - wait_.began_s),
                       std::max(0.0, now.cpu_s - before.cpu_s),
                       std::max(0.0, now.core_wait_s - before.core_wait_s)};
    }
    with_gaps([this](cudaStream_t stream) {
      gaps_->end(stream);
      wait_.idle_s = gaps_->take_s();
    });
  }

  /// Counts the wait, and throws the exception of the iterator, or StopIteration at its end.
  [[noreturn]] void fail() {
    std::optional<py::error_already_set> error;
    if (PyErr_Occurred() != nullptr) error.emplace();
    wait_.gave_batch = false;
    end_next();
    static_cast<void>(watch_.add(wait_));
    if (error) throw std::move(*error);
    throw py::stop_iteration();
  }

  void count_loader_times() {
    const auto [seconds, cpu_s] = loader_times_().cast<std::pair<double, double>>();
    wait_.loader_s = seconds - std::exchange(loader_s_, seconds);
    wait_.loader_cpu_s = cpu_s - std::exchange(loader_cpu_s_, cpu_s);
  }

  /// The CPU time of the loop's thread is of interest only if batches are loaded in it. Reading it
  /// is a system call.
  bool needs_cpu_time() const { return !queue_ && loader_times_.is_none(); }

  void forget_source() {
    processes_.clear();
    queue_ = nullptr;
    loader_times_ = py::none();
  }

  /// Calls function(stream) with the current stream, if a GPU is measured.
  template <typename Function>
  void with_gaps(const Function& function) {
    if (!gaps_) return;
    try {
      function(
          c10::cuda::getCurrentCUDAStream(static_cast<c10::DeviceIndex>(gaps_->device())).stream());
    } catch (const Error&) {
      // A GPU that cannot be used is reported by the next operation of the loop. Watching must not
      // be what ends it.
      gaps_.reset();
    }
  }

  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  LoopWatch watch_;
  LoopWait wait_;
  std::vector<pid_t> processes_;
  std::shared_ptr<TorchQueue> queue_;
  py::object loader_times_ = py::none();
  std::unique_ptr<cuda::StreamGaps> gaps_;
  double next_reading_s_ = 0, cpu_s_ = 0, loader_s_ = 0, loader_cpu_s_ = 0;
};

py::dict waits(const LoopTotals& totals) {
  py::dict shares;
  for (const WaitPart& part : wait_parts(totals)) shares[py::str(part.name)] = part.share;
  return shares;
}

}  // namespace

void add_loop_meter(py::module_& module) {
  py::class_<LoopTotals>(module, "LoopTotals")
      .def_readonly("steps", &LoopTotals::steps)
      .def_readonly("seconds", &LoopTotals::seconds)
      .def("input_wait_share", &LoopTotals::input_wait_share)
      .def("steps_per_second", &LoopTotals::steps_per_second)
      .def("batches_ready", &LoopTotals::batches_ready)
      .def("waits", &waits)
      .def("text", [](const LoopTotals& totals, const std::string& name) {
        return loop_report(name, totals);
      });
  py::class_<TorchQueue, std::shared_ptr<TorchQueue>>(module, "TorchQueue")
      .def(py::init<py::object, py::object, py::object, std::int64_t>());
  py::class_<LoopMeter>(module, "LoopMeter")
      .def(py::init<std::string, double>())
      .def("begin_epoch", &LoopMeter::begin_epoch)
      .def("set_source", &LoopMeter::set_source)
      .def("measure_gpu", &LoopMeter::measure_gpu)
      .def("next", &LoopMeter::next)
      .def("end_epoch", &LoopMeter::end_epoch)
      .def("take_lines", [](LoopMeter& meter) { return meter.watch().take_lines(); })
      .def("take_totals", [](LoopMeter& meter) { return meter.watch().take_totals(); })
      .def("totals", [](LoopMeter& meter) { return meter.watch().totals(); })
      .def("state", [](LoopMeter& meter) { return std::string(meter.watch().state()); })
      .def("starvations", [](LoopMeter& meter) { return meter.watch().starvation().starvations; })
      .def("starved_s", [](LoopMeter& meter) { return meter.watch().starvation().starved_s; });
}

}  // namespace slipstream
