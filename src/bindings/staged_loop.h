#pragma once

#include <ATen/ThreadLocalState.h>
#include <c10/core/Device.h>
#include <c10/cuda/CUDAStream.h>

#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "bindings/autocast_watch.h"
#include "bindings/contexts.h"
#include "bindings/draws.h"
#include "bindings/feed.h"
#include "bindings/interrupts.h"
#include "bindings/lane_memory.h"
#include "bindings/loop_input.h"
#include "bindings/script_stage.h"
#include "bindings/stage_watch.h"
#include "core/schedule.h"
#include "slipstream/engine/context.h"

namespace slipstream {

/// A stage before the loop body, which runs on each batch on a separate lane. The functions are in
/// a Python list (kept_in()).
struct LoopStage {
  std::string name;
  /// Takes a whole batch and returns the changed one. If `takes_number`, it also takes the index of
  /// the batch.
  pybind11::handle apply;
  StageWatch watch;
  std::optional<std::uint64_t> seed;
  /// The module that apply() calls, if a thread without the GIL may call it, otherwise nullptr.
  std::shared_ptr<const ScriptStage> script = nullptr;
  pybind11::handle arguments = {};  ///< takes a batch and returns the arguments of `script`
  /// Takes a batch and the result of `script`, and returns the changed batch.
  pybind11::handle placed = {};
  /// If apply() only calls its `function` with one value of the batch: the keys of the argument and
  /// of the result. Otherwise an empty tuple.
  pybind11::handle direct = {};
  bool chooses_autocast = false;  ///< whether the stage has its own autocast, not that of the loop
  bool takes_number = false;
};

/// One iteration over a feed. Batches are copied and pass through the stages. The loop body is the
/// caller's work between two calls of next(), on the stream that was current at the call. All work
/// is enqueued on the caller's thread. The exceptions are feeds that want a thread and TorchScript
/// stages, which have a thread each; no two successive lanes do.
class StagedLoop final : Work {
 public:
  /// `first`: index of the first batch, from which stages with a seed derive their random numbers.
  /// `limit`: the iteration ends after this number of batches, even if the feed has more.
  StagedLoop(std::shared_ptr<Feed> feed, std::vector<LoopStage> stages,
             const std::shared_ptr<Context>& context, std::uint64_t first, std::uint64_t limit,
             std::size_t run_ahead);
  ~StagedLoop() override;
  StagedLoop(const StagedLoop&) = delete;
  StagedLoop& operator=(const StagedLoop&) = delete;

  /// Returns the next batch, or nothing at the end. The caller's current stream waits for the
  /// batch; the host waits only if its input is late. Needs the GIL, as do all functions below. If
  /// a stage or the feed threw an exception for this batch, throws it; the following call returns
  /// the next batch. After an error that does not belong to one batch (a failed check, Ctrl-C),
  /// each further call throws.
  std::optional<pybind11::object> next();
  /// Ends the iteration at any point. Does not synchronize with the device.
  void close();
  /// Name of the stage that failed in the last call of next(), or "".
  const std::string& failed() const { return failed_; }
  /// Number of batches that next() has returned, or thrown an error for.
  std::uint64_t given() const { return given_; }
  /// Number of batches that were taken from the feed, including those with an error.
  std::uint64_t taken() const { return input_.taken(); }
  /// Returns the cost of waiting for the feed inside next() since the first call. Stays 0 if a
  /// separate thread takes batches from it.
  const StepCounter& taking() { return input_.taking(); }
  /// Whether an error that does not belong to one batch ended the loop.
  bool has_failed() const { return !ended_by_.empty(); }
  /// For Python's garbage collector: visits the errors that next() has not yet thrown. Their
  /// tracebacks contain frames, which may refer to the loop.
  int traverse(visitproc visit, void* arg) const;

 private:
  /// An exception that a lane threw for a batch.
  struct Failure {
    explicit operator bool() const { return error || raised; }

    std::exception_ptr error;
    pybind11::object raised;  ///< set instead of `error` if the exception is from Python
    std::string stage;
    bool is_loaders = false;
  };

  bool wants_times() const override { return false; }
  bool input_ready(std::uint64_t batch) override;
  /// There is nothing left to wait for: the schedule calls stop_ before, which takes the batch.
  void await_input(std::uint64_t) override {}
  void poll() override { signals_(); }
  void drop(std::size_t lane, std::size_t slot) override;
  void run(std::size_t lane, std::uint64_t batch, std::size_t slot) override;
  void completed(std::uint64_t, std::span<const Mark* const>,
                 std::span<const Mark* const>) override {}

  void begin();
  bool advance();
  void close_quietly();
  void run_lane(std::size_t lane, std::uint64_t batch, std::size_t slot);
  void keep_failure(std::size_t lane, std::size_t slot, bool is_loaders);
  void restore_lanes();
  /// Releases the results of all lanes in a slot.
  void clear(std::size_t slot);
  void prepare_call(std::size_t lane, std::size_t slot);
  void refuse_computed(std::size_t lane, const at::Tensor& tensor);
  void move(std::size_t slot);
  void run_script(std::size_t lane, std::size_t slot);
  /// Returns the result of a lane before the last for the batch in a slot.
  const pybind11::object& value(std::size_t slot, std::size_t lane);
  pybind11::object copied();
  pybind11::object staged(std::size_t stage, std::uint64_t batch, const pybind11::object& from);
  void keep_own(std::size_t lane, const pybind11::object& made);
  void keep_own(std::size_t lane, const at::Tensor& tensor);
  void refuse_same_memory(std::size_t lane, const at::Tensor& tensor);
  void check_stages(bool is_at_end);
  void set_stream();

  std::shared_ptr<Context> context_;
  std::vector<LoopStage> stages_;
  c10::Device device_;
  std::uint64_t first_;
  std::optional<c10::cuda::CUDAStream> stream_;  ///< the caller's
  std::unique_ptr<Lane> body_;
  std::vector<Lane*> lanes_;
  std::vector<std::vector<pybind11::object>> values_;  ///< [slot][lane]: the lane's result
  /// [slot]: the first lane's, where a thread made it.
  std::vector<std::vector<at::Tensor>> moved_;
  std::vector<std::vector<std::optional<ScriptStage::Call>>> calls_;  ///< [slot][lane], with thread
  std::vector<Failure> failures_;                                     ///< [slot]
  std::string ended_by_;              ///< the error after which there are no more batches
  std::mutex keeping_;                ///< guards memory_; never held while waiting for the GIL
  std::vector<LaneMemory> memory_;    ///< [lane]
  std::vector<std::uint64_t> begun_;  ///< [lane]: number of batches that began
  std::optional<ThreadLease> threads_;
  std::optional<at::ThreadLocalState> modes_;  ///< modes of the caller, for example inference mode
  std::unique_ptr<Mark> entry_;
  DrawOrder draws_;
  AutocastWatch autocast_;
  LoopInput input_;
  SignalPoll signals_;
  bool has_begun_ = false, is_closed_ = false, is_ending_ = false;
  std::uint64_t given_ = 0;  ///< number of returned batches
  std::string failed_;
  const std::function<bool()> stop_;
  std::unique_ptr<Schedule> schedule_;
};

}  // namespace slipstream
