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

/// What is done to each batch ahead of a loop's body, on a lane of its own. Functions are in a list
/// of Python's (kept_in()).
struct LoopStage {
  std::string name;
  pybind11::handle apply;  ///< of a whole batch, gives it changed
  StageWatch watch;
  std::optional<std::uint64_t> seed;
  /// What apply() calls, where a thread without Python's lock may do so, or nullptr.
  std::shared_ptr<const ScriptStage> script = nullptr;
  pybind11::handle arguments = {};  ///< of a batch, gives the tuple that `script` is called with
  pybind11::handle placed = {};     ///< of a batch and what that gave, gives the changed batch
  /// The keys of the value of a batch that apply() calls its `function` with and of the one that
  /// this gives, where that is all it does, else an empty tuple.
  pybind11::handle direct = {};
  bool chooses_autocast = false;  ///< rather than running under that of the loop
};

/// One pass over a feed: batches are copied and go through the stages ahead of a body, which is the
/// caller's work between two calls of next(), on the stream that was its current one when it got
/// the batch. All that is done is called on the caller's thread, but for feeds that want a thread
/// and stages of TorchScript: they have one each, of which none follows another.
class StagedLoop final : Work {
 public:
  /// `first`: the number of the first batch, by which stages with a seed draw.
  StagedLoop(std::shared_ptr<Feed> feed, std::vector<LoopStage> stages,
             const std::shared_ptr<Context>& context, std::uint64_t first, std::size_t run_ahead);
  ~StagedLoop() override;
  StagedLoop(const StagedLoop&) = delete;
  StagedLoop& operator=(const StagedLoop&) = delete;

  /// The next batch; nothing at the end. The caller's current stream waits for it. Needs Python's
  /// lock, as all below. Throws what a stage or the feed threw in place of its batch: the call
  /// after it gives the next one. After an error that is not one batch's (a check that failed,
  /// Ctrl-C) each further call throws.
  std::optional<pybind11::object> next();
  /// Ends the pass, wherever it is. The host waits for nothing.
  void close();
  /// The stage that failed in the last call of next(); "" where none did.
  const std::string& failed() const { return failed_; }
  /// Batches that next() has given or thrown an error for.
  std::uint64_t given() const { return given_; }
  /// Batches that were taken from the feed, those with an error among them.
  std::uint64_t taken() const { return input_.taken(); }
  /// Whether an error other than one batch's ended it.
  bool has_failed() const { return !ended_by_.empty(); }
  /// For Python's garbage collector: errors that wait for their turn. Their tracebacks hold frames,
  /// and these may hold the loop.
  int traverse(visitproc visit, void* arg) const;

 private:
  /// What a lane threw instead of making its part of a batch.
  struct Failure {
    explicit operator bool() const { return error || raised; }

    std::exception_ptr error;
    pybind11::object raised;  ///< instead of `error`, where it is Python's
    std::string stage;
    bool is_loaders = false;
  };

  bool wants_times() const override { return false; }
  bool input_ready(std::uint64_t batch) override;
  void await_input(std::uint64_t) override {}
  void poll() override { signals_(); }
  void drop(std::size_t lane, std::size_t slot) override;
  void run(std::size_t lane, std::uint64_t batch, std::size_t slot) override;
  void retired(std::uint64_t, std::span<const Mark* const>, std::span<const Mark* const>) override {
  }

  void begin();
  bool advance();
  void close_quietly();
  void run_lane(std::size_t lane, std::uint64_t batch, std::size_t slot);
  void keep_failure(std::size_t lane, std::size_t slot, bool is_loaders);
  void restore_lanes();
  /// Of what lanes have made, all that is in a slot.
  void clear(std::size_t slot);
  void prepare_call(std::size_t lane, std::size_t slot);
  void refuse_computed(std::size_t lane, const at::Tensor& tensor);
  void move(std::size_t slot);
  void run_script(std::size_t lane, std::size_t slot);
  /// What a lane before the last made of the batch in a slot.
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
  std::vector<std::vector<pybind11::object>> values_;  ///< [slot][lane]: what it made of the batch
  std::vector<std::vector<at::Tensor>>
      moved_;  ///< [slot]: the first lane's, where a thread made it
  std::vector<std::vector<std::optional<ScriptStage::Call>>> calls_;  ///< as values_, of threads
  std::vector<Failure> failures_;                                     ///< [slot]
  std::string ended_by_;              ///< the error after which there are no more batches
  std::mutex keeping_;                ///< memory_; nobody waits for Python's lock with it
  std::vector<LaneMemory> memory_;    ///< [lane]
  std::vector<std::uint64_t> begun_;  ///< [lane]: batches
  std::optional<ThreadLease> threads_;
  std::optional<at::ThreadLocalState> modes_;  ///< of the caller, such as inference mode
  std::unique_ptr<Mark> entry_;
  DrawOrder draws_;
  AutocastWatch autocast_;
  LoopInput input_;
  SignalPoll signals_;
  bool has_begun_ = false, is_closed_ = false, is_ending_ = false;
  std::uint64_t given_ = 0;  ///< batches
  std::string failed_;
  const std::function<bool()> stop_;
  std::unique_ptr<Schedule> schedule_;
};

}  // namespace slipstream
