#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "engine/device_slab.h"
#include "engine/graph_recorder.h"
#include "slipstream/engine/batch.h"
#include "slipstream/engine/loss.h"
#include "slipstream/engine/result.h"

namespace slipstream {

/// What a device step computed for a batch.
struct StepResult {
  Fields made;                        ///< fields that a stage set
  std::vector<std::int64_t> classes;  ///< Batch::classes() of each of them
  LossValue value;                    ///< of the training step
};

/// A device step and a batch, for StepGraphs::run().
struct StepCall {
  /// Runs the step on a batch. It must do the same in each call with equal `variant` whose batch
  /// has fields of the same names, dtypes, shapes and strides. It stays valid as long as the
  /// StepGraphs.
  std::function<StepResult(Batch&)> work;
  std::string variant;  ///< what else decides which work the step enqueues
  /// Returns true if the memory of a field has the same address each time that the batch's slot is
  /// used. Other fields are copied to memory of the graph before each replay.
  std::function<bool(const at::Tensor&)> is_static;
  /// Restores what the work changes on the host. Called after a recording that failed, and between
  /// a replay and the work that it is compared with.
  std::function<void()> undo = [] {};
  /// Returns the tensors that the work changes, apart from its result.
  std::function<std::vector<at::Tensor>()> state = [] { return std::vector<at::Tensor>(); };
  /// Saves what else the work changes, and returns a function that restores it.
  std::function<std::function<void()>()> save = [] { return [] {}; };
  bool is_deterministic = true;      ///< whether the work computes the same bits again
  std::mutex* slot_mutex = nullptr;  ///< held while fields(slot) changes
};

/// Runs one device step as graphs. There is one graph for each slot and for each kind of batch: the
/// fields' shapes and StepCall::variant. A graph reads the fields where they are in the slot, and a
/// stage's results stay in the graph's memory until the slot is used again.
///
/// The first kEagerRuns batches of a kind run without a graph. Then the step is recorded once for
/// each slot. The first replay for another batch is compared with the step itself, because a graph
/// repeats values of the host that it was recorded with. If the step cannot be recorded, or its
/// graph computes something else, all later batches run without a graph, and take_counts() returns
/// the reason.
class StepGraphs {
 public:
  static constexpr unsigned kEagerRuns = 3;
  /// The number of kinds of batches that may get graphs. Others run without one.
  static constexpr std::size_t kMostKinds = 16;
  /// The number of times, for each slot on average, that a step is recorded again because the
  /// addresses of its fields changed.
  static constexpr std::size_t kMostRenewals = 4;

  StepGraphs(std::string step, std::unique_ptr<GraphRecorder> recorder, std::size_t slots);

  /// Runs the step on `batch`, on the current lane. `batch` stays unchanged. Tensors of the result
  /// share memory with the graph, if there is one, but are other tensors than those in fields().
  StepResult run(const Batch& batch, std::size_t slot, const StepCall& call);

  /// Runs all later batches without graphs.
  void disable(const std::string& reason);
  /// Returns true if later batches run without graphs.
  bool is_disabled() const { return is_disabled_; }

  /// The tensors that the graphs of a slot read, and those that they write their results to.
  std::vector<const Fields*> fields(std::size_t slot) const;
  /// Returns true if a graph of the slot writes its results to the memory of `tensor`.
  bool is_result(std::size_t slot, const at::Tensor& tensor) const;
  /// Releases the graphs of a slot whose results code outside of `own` still references. They are
  /// recorded again in other memory. Results in memory that other steps write to do not count.
  void release_held(std::size_t slot, c10::Device device, std::span<void* const> streams,
                    const std::function<std::vector<const Fields*>()>& own, const DeviceSlab& slab);

  /// Returns the counts and warnings since the last call.
  GraphCounts take_counts();

 private:
  struct Recorded {
    std::string kind;
    std::uint64_t number = 0;  ///< of the batch that is recorded or replayed
    Batch inputs;              ///< the fields that the graph reads
    /// Addresses of the fields of `inputs`; nullptr if a batch's field is copied there first.
    std::vector<const void*> addresses;
    StepResult result;
    std::unique_ptr<RecordedWork> work;
  };
  using Recordings = std::vector<std::unique_ptr<Recorded>>;

  /// Counts a batch that runs without a graph. Returns true if its kind is due for a graph.
  bool is_due(const std::string& kind);
  Recorded* find(std::size_t slot, const std::string& kind) const;
  /// Removes a recording whose fields have moved.
  void remove(std::size_t slot, const Recorded* old, std::mutex* slot_mutex);
  /// Records the step for this slot. Returns nullptr, and changes nothing, if that is not possible.
  Recorded* record(const Batch& batch, std::size_t slot, const std::string& kind,
                   const StepCall& call);
  /// Replays a graph and compares its results with those of the step, run on the same state.
  StepResult checked_replay(const Batch& batch, Recorded& recorded, const StepCall& call);
  static StepResult replay(const Batch& batch, Recorded& recorded);
  void warn(const std::string& reason);

  std::string step_;
  std::unique_ptr<GraphRecorder> recorder_;
  std::vector<Recordings> slots_;
  std::map<std::string, unsigned> eager_runs_;  ///< by kind
  std::set<std::string> checked_;               ///< kinds whose graph has been compared
  std::size_t renewals_ = 0;
  bool is_disabled_ = false;
  GraphCounts counts_;
};

}  // namespace slipstream
