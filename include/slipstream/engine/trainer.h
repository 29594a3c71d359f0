#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "slipstream/engine/context.h"
#include "slipstream/engine/pipeline.h"
#include "slipstream/engine/result.h"

namespace slipstream {

/// Lets a run start after a host or device step, from cached items instead of everything up to that
/// step. The items are taken in turn.
struct Cut {
  std::string after;      ///< the name of the step
  std::size_t items = 1;  ///< number of samples; after "collate" and device steps of batches
};

struct State;

/// Options of Trainer::run().
struct RunOptions {
  std::uint64_t steps = 1;  ///< steps to train
  std::optional<Cut> cut;   ///< no value: the run starts with reading
  std::string last_step;    ///< "": to the end; otherwise no step after this one is run
  /// Called while the run goes on, by the thread that feeds the first lane.
  std::function<void(const Progress&)> progress;
  std::function<bool()> stop;  ///< asked before each batch enters; true ends the run cleanly
  bool digest = true;          ///< whether RunResult::digest is computed at the end
  /// Whether a loss that is not finite ends the run with an Error. Measurements set it to false,
  /// for they take as long whatever the loss. It is ignored with a cut or a `last_step`.
  bool check_loss = true;
  /// Asked behind each step, with the number of the next one, by the thread of the training lane:
  /// true lets a copy of the state there be taken on the device. Not asked with a cut or a
  /// `last_step`.
  std::function<bool(std::uint64_t position)> wants_state;
  /// Takes the copy, once its step has been seen to be finished, on the thread that calls
  /// `progress`. It must be quick. Where there was no memory for the copy, it is empty and its
  /// `failure` says so.
  std::function<void(State)> on_state;
  /// Takes LossValue::outputs of each step, once the step has been seen to be finished, in order,
  /// on the thread that calls `progress`. The tensors are in host memory and the taker's own.
  std::function<void(std::uint64_t step, const std::vector<at::Tensor>& outputs)> on_outputs;
  /// The first batch of the run that RunResult::counters of device steps count. The batches before
  /// choose algorithms and load code.
  std::uint64_t first_counted = 0;
  /// Whether batches cached on the device are digested before and after the run, for
  /// RunResult::changed_fields.
  bool check_cache = false;
};

/// The losses of the epoch to which the last step belongs, up to that step.
struct EpochLosses {
  double sum = 0;
  /// The number of losses in the sum. A state that an earlier version of the program saved has
  /// none.
  std::uint64_t steps = 0;

  /// Adds the loss of the step `step`, counted from 0 through all epochs, of which each has
  /// `batches_per_epoch` steps. The first step of an epoch begins a new sum.
  void add(float loss, std::uint64_t step, std::uint64_t batches_per_epoch);
  /// NaN where there is no loss.
  double mean() const;
};

/// A copy of weights, buffers, optimizer state and position between two steps.
struct State {
  std::vector<NamedTensor> model;     ///< parameters and buffers, on the trainer's device
  std::vector<NamedTensor> training;  ///< TrainStep::state(), such as the optimizer's
  std::uint64_t position = 0;         ///< the next step
  std::uint64_t loss_digest = 0;      ///< digest of all losses so far
  EpochLosses epoch_losses = {};
  /// Why these are not the weights of any step; "": they are. A state taken after a run that failed
  /// in the middle of a step says so. A trainer into which it is put back refuses to train.
  std::string failure;
};

/// Binds a pipeline to a device and trains it, run after run. Position (the next step) and weights
/// go on from run to run, so a run of 10 steps and one of 20 train as one of 30 does, whatever
/// their plans, as long as their numerics are equal.
///
/// The work of a run waits for what the caller's current stream holds when the run begins. A run
/// returns when its own lanes are idle.
class Trainer {
 public:
  /// Moves the modules to the context's device, puts their weights into the memory layout of
  /// `numerics`, and binds the optimizer. Throws Refused for a pipeline that cannot be run (a field
  /// whose shape is not fixed, a batch larger than the data set). `context` must outlive the
  /// trainer.
  Trainer(Pipeline pipeline, Context& context, const Plan::Numerics& numerics);
  ~Trainer();
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  /// Trains under `plan`, whose numerics must be the trainer's, and waits until its work is done.
  ///
  /// Throws Refused for a plan that cannot be run. Throws Error, naming stage and step, for what a
  /// stage throws, which is nested in it (std::rethrow_if_nested); the failed step and those after
  /// it are not part of the position. Where the device ran out of memory the message says what
  /// would fit. Throws Error for the first step whose loss is NaN or infinite
  /// (RunOptions::check_loss). Throws DeviceLost when the device cannot be used any more.
  ///
  /// After an Error the trainer stays usable. Where the state was changed in part (a loss that is
  /// not finite, an optimizer that threw, a training stage with buffers that threw), the next run
  /// is Refused until restore() has put back a state that was taken before.
  RunResult run(const Plan& plan, const RunOptions& options);

  /// Makes the loader that a run of `plan` from the current position would have, to measure it
  /// alone. Its batches lie in memory of the context, which must outlive it. Throws what the
  /// constructor of DataLoader throws.
  std::unique_ptr<DataLoader> make_loader(const Plan& plan,
                                          const std::optional<HostCut>& cut) const;

  /// Copies weights, buffers, optimizer state and position. Waits for the device.
  State state();
  /// Copies `state` back into weights, buffers and optimizer state, and goes to its position. Waits
  /// for the device. Throws Error for a state of another pipeline.
  void restore(const State& state);

  const Pipeline& pipeline() const;
  const Plan::Numerics& numerics() const;
  Context& context() const;
  /// The number of the next step, counted from 0 through all runs and all epochs.
  std::uint64_t position() const;
  /// The losses of the epoch to which the last step belongs, with those before a restored state.
  EpochLosses epoch_losses() const;
  /// A 64-bit hash of all losses since the trainer was made (with those of a restored state),
  /// weights, buffers and the optimizer's state. Waits for the device.
  std::uint64_t digest() const;

 private:
  friend struct Access;
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// What run_auto() chose and did.
struct AutoResult {
  AutoChoice choice;
  /// All steps of the training, those that were measured included. Rate, wait for input, lanes and
  /// memory are those of the last part, under the plan that was kept.
  RunResult run;
};

/// Trains under the faster of two plans. It trains a few steps under `serial` and `pipelined` in
/// turns, which are real steps of the run, and measures each lane of `pipelined` alone on a cached
/// batch, after which the state is put back. It goes on with `pipelined` where that was faster,
/// else with `serial`, also where there are too few steps to measure. Steps that had batches
/// waiting from before their turn do not count. Waits and throws as Trainer::run() does.
AutoResult run_auto(Trainer& trainer, const Plan& serial, const Plan& pipelined,
                    const RunOptions& options);

/// The share of the largest possible gain that overlapping reached: (Ts - Tp) / (Ts - Tm), where
/// Ts, Tp and Tm are 1 / rate of serial, pipelined and the slowest lane alone. Its interval is the
/// widest that the three intervals allow. It is 0 where there is nothing to gain.
Measured overlap_efficiency(const Measured& serial, const Measured& pipelined,
                            const Measured& slowest_lane);

/// Measures each lane of `plan` alone, on cached batches, for `steps` steps, and returns the steps
/// per second of each lane by its name. Where `stop`, asked as in a run, returns true, the lanes
/// that have not been measured are left out. `progress` is told of each step, with the lane in
/// Progress::measuring. The state is put back also where it throws.
std::vector<std::pair<std::string, Measured>> measure_lanes_alone(
    Trainer& trainer, const Plan& plan, std::uint64_t steps, const std::function<bool()>& stop = {},
    const std::function<void(const Progress&)>& progress = {});

}  // namespace slipstream
