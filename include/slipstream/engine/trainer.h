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

/// Makes a run start after a host or device step, from cached items instead of running all steps up
/// to that one. The run cycles through the items.
struct Cut {
  std::string after;      ///< the name of the step
  std::size_t items = 1;  ///< number of samples or, after "collate" and device steps, of batches
};

struct State;

/// Options of Trainer::run().
struct RunOptions {
  std::uint64_t steps = 1;  ///< steps to train
  std::optional<Cut> cut;   ///< no value: the run starts with reading
  std::string last_step;    ///< "": all steps; otherwise no step after this one runs
  /// Called during the run, by the thread that feeds the first lane.
  std::function<void(const Progress&)> progress;
  /// Called before each batch enters; if it returns true, the run ends cleanly.
  std::function<bool()> stop;
  bool digest = true;  ///< whether RunResult::digest is computed at the end
  /// Whether a loss that is not finite ends the run with an Error. Measurements set it to false,
  /// because the value of the loss does not affect the time. It is ignored with a cut or a
  /// `last_step`.
  bool check_loss = true;
  /// Called after each step, with the number of the next one, by the thread of the training lane.
  /// If it returns true, the state at that point is copied on the device. Not called with a cut or
  /// a `last_step`.
  std::function<bool(std::uint64_t position)> wants_state;
  /// Receives the copy when the host has seen that its step has finished, on the thread that calls
  /// `progress`. It must return quickly. If there was no memory for the copy, the State is empty
  /// and its `failure` gives the reason.
  std::function<void(State)> on_state;
  /// Receives LossValue::outputs of each step, in order, when the host has seen that the step has
  /// finished, on the thread that calls `progress`. The tensors are in host memory and belong to
  /// the receiver.
  std::function<void(std::uint64_t step, const std::vector<at::Tensor>& outputs)> on_outputs;
  /// The first batch of the run that is counted in RunResult::counters of device steps. Earlier
  /// batches are not counted, because they also choose algorithms and load code.
  std::uint64_t first_counted = 0;
  /// Whether digests of the batches cached on the device are compared before and after the run.
  /// Differences are reported in RunResult::changed_fields.
  bool check_cache = false;
};

/// The losses of the current epoch, up to the last trained step.
struct EpochLosses {
  double sum = 0;
  /// The number of losses in the sum. It is 0 in a state that was saved by an earlier version of
  /// the program.
  std::uint64_t steps = 0;

  /// Adds the loss of step `step`, counted from 0 through all epochs of `batches_per_epoch` steps
  /// each. The first step of an epoch starts a new sum.
  void add(float loss, std::uint64_t step, std::uint64_t batches_per_epoch);
  /// Returns the mean loss; NaN if there is no loss.
  double mean() const;
};

/// A copy of weights, buffers, optimizer state and position between two steps.
struct State {
  std::vector<NamedTensor> model;     ///< parameters and buffers, on the trainer's device
  std::vector<NamedTensor> training;  ///< tensors of TrainStep::state(), such as the optimizer's
  std::uint64_t position = 0;         ///< number of the next step
  std::uint64_t loss_digest = 0;      ///< digest of all losses so far
  EpochLosses epoch_losses = {};
  std::string order = {};  ///< state of the pipeline's lister at this position; "" without one
  /// The reason why these weights do not belong to any step; "" if they do. It is set in a state
  /// that was taken after a run failed in the middle of a step. A trainer into which such a state
  /// is restored refuses to train.
  std::string failure;
};

/// Moves a pipeline to a device and trains it, run after run. Position (the next step) and weights
/// are kept from run to run: a run of 10 steps and one of 20 train like one of 30, whatever their
/// plans, if the numerics are equal.
///
/// A run starts after the work that is on the caller's current stream when run() is called. It
/// returns when its own lanes are idle. One thread at a time may call a Trainer.
class Trainer {
 public:
  /// Moves the modules to the context's device, converts their weights to the memory layout of
  /// `numerics`, and binds the optimizer. Throws Refused if the pipeline cannot be run (a field
  /// without a fixed shape, a batch larger than the data set). `context` must outlive the trainer.
  Trainer(Pipeline pipeline, Context& context, const Plan::Numerics& numerics);
  ~Trainer();
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  /// Trains under `plan`, whose numerics must be equal to the trainer's, and waits until the work
  /// is done.
  ///
  /// Throws Refused if the plan cannot be run. If a stage throws, throws Error with the stage and
  /// the step; the original exception is nested in it (std::rethrow_if_nested). The position then
  /// excludes the failed step and all later ones. If the device ran out of memory, the message
  /// states what would fit. Throws Error for the first step whose loss is NaN or infinite
  /// (RunOptions::check_loss). Throws DeviceLost if the device cannot be used any more.
  ///
  /// The trainer stays usable after an Error. If the state was partly changed (a loss that is not
  /// finite, an exception of the optimizer, an exception of a training stage with buffers), the
  /// next run throws Refused until restore() has restored an earlier state.
  RunResult run(const Plan& plan, const RunOptions& options);

  /// Makes the loader that a run of `plan` from the current position would use, to measure it
  /// alone. Its batches are in memory of the context, which must outlive the loader. Throws what
  /// the constructor of DataLoader throws.
  std::unique_ptr<DataLoader> make_loader(const Plan& plan,
                                          const std::optional<HostCut>& cut) const;

  /// Returns a copy of weights, buffers, optimizer state and position. Waits for the device.
  State state();
  /// Copies `state` into weights, buffers and optimizer state, and sets the position. Waits for the
  /// device. Throws Error if the state belongs to another pipeline.
  void restore(const State& state);

  /// Frees the CUDA graphs of earlier runs, with the device memory of their batches, which are kept
  /// for the next run under the same plan. Graphs are recorded again when they are needed.
  void release_graphs();

  const Pipeline& pipeline() const;
  const Plan::Numerics& numerics() const;
  Context& context() const;
  /// Returns the number of the next step, counted from 0 through all runs and all epochs.
  std::uint64_t position() const;
  /// Returns the losses of the current epoch, including those before a restored state.
  EpochLosses epoch_losses() const;
  /// Returns a 64-bit hash of all losses since the trainer was created (including those of a
  /// restored state), weights, buffers and the optimizer's state. Waits for the device.
  std::uint64_t digest() const;

 private:
  friend struct Access;
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Result of run_auto().
struct AutoResult {
  AutoChoice choice;
  /// Result of the whole training. Its steps include those that were run to compare plans. Its
  /// rate, wait for input, lanes and memory describe only the steps under the chosen plan.
  RunResult run;
};

/// Trains under the fastest of two or three plans. It first alternates between `serial`,
/// `pipelined` and, if it is given, `graph` for a few steps, which are real steps of the run.
/// Before that, it trains some steps under `graph`, in which the graphs are recorded. Then it
/// measures each lane of `pipelined` alone on a cached batch and restores the state. It continues
/// with the plan that was fastest, and with `serial` if there are too few steps to measure. Steps
/// whose batches were prefetched before their turn are not counted. Waits and throws as
/// Trainer::run() does.
AutoResult run_auto(Trainer& trainer, const Plan& serial, const Plan& pipelined,
                    const RunOptions& options, const std::optional<Plan>& graph = std::nullopt);

/// Returns the share of the largest possible gain that overlapping reached: (Ts - Tp) / (Ts - Tm),
/// where Ts, Tp and Tm are 1 / rate of the plan "serial", the plan "pipelined" and the slowest lane
/// alone. Its interval is the widest one that the three intervals allow. It is 0 if nothing can be
/// gained.
Measured overlap_efficiency(const Measured& serial, const Measured& pipelined,
                            const Measured& slowest_lane);

/// Measures each lane of `plan` alone on cached batches, for `steps` steps, and returns the steps
/// per second of each lane by name. `stop` is called as in a run; if it returns true, the remaining
/// lanes are left out. `progress` is called after each step, with the lane in Progress::measuring.
/// The state is restored, also if the call throws.
std::vector<std::pair<std::string, Measured>> measure_lanes_alone(
    Trainer& trainer, const Plan& plan, std::uint64_t steps, const std::function<bool()>& stop = {},
    const std::function<void(const Progress&)>& progress = {});

}  // namespace slipstream
