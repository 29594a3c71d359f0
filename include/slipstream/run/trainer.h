#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "slipstream/results/result.h"
#include "slipstream/run/context.h"
#include "slipstream/run/pipeline.h"

namespace slipstream {

/// A run that starts after `after`, any host or device step, from `items` cached items (samples
/// before "collate", batches from there on) taken in turn, instead of everything up to that step.
struct Cut {
  std::string after;
  std::size_t items = 1;
};

struct RunOptions {
  std::uint64_t steps = 1;
  std::optional<Cut> cut;
  std::string last_step;  ///< "": to the end; otherwise no step after this one is run
  std::function<void(const Progress&)> progress;
  std::function<bool()> stop;  ///< asked before each batch enters; true ends the run cleanly
  bool digest = true;          ///< whether the weights are digested at the end
  /// Whether a loss that is not finite ends the run, with an Error. false: for measurements, which
  /// take as long whatever the loss. Not asked with a cut or a `last_step`.
  bool check_loss = true;
  /// Of the run: RunResult::counters of device steps leave out the batches before, which choose
  /// algorithms and load code.
  std::uint64_t first_counted = 0;
  /// Whether batches cached on the device are digested before and after: RunResult::changed_fields.
  bool check_cache = false;
};

/// Weights, optimizer state, buffers and position at a batch border: copies on the same device.
struct State {
  std::vector<at::Tensor> tensors;
  std::uint64_t position = 0;
  std::uint64_t loss_digest = 0;
  /// Why these are not the weights of any step; "": they are. A state taken after a run that failed
  /// in the middle of a step says so, and its trainer goes on refusing to train when it is put
  /// back.
  std::string spoiled_by;
};

/// Binds a declaration to a device and trains it, run after run. Position (the next batch) and
/// weights go on from run to run, so a run of 10 and one of 20 steps train as one of 30 does,
/// whatever their plans, as long as their numerics are equal.
///
/// Every run waits at its beginning for the caller's current stream and returns when its own lanes
/// are idle.
class Trainer {
 public:
  /// Moves the modules to the context's device (and layout), binds the optimizer. Throws Refused
  /// for what cannot be run (a field whose shape is not fixed, a batch larger than the data set).
  Trainer(Pipeline pipeline, Context& context, const Plan::Numerics& numerics);
  ~Trainer();
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  /// Trains under `plan`, whose numerics must be the trainer's. Throws Refused for a plan that
  /// cannot be run; Error naming stage and step for what a stage throws (the failed step and those
  /// after it are not part of its position), with what would fit when the device runs out of
  /// memory; Error for the first step whose loss is NaN or infinite, unless the run has a cut or a
  /// last step; DeviceLost when the device cannot be used any more.
  ///
  /// After an Error the trainer stays usable. Where the failed step, or steps behind it, had
  /// changed the state already (a loss that is not finite; an optimizer that threw; a training
  /// stage with buffers that threw), the next run is Refused until restore() has put a state back
  /// that was taken before.
  RunResult run(const Plan& plan, const RunOptions& options);

  /// A loader as a run of `plan` from here on makes one, for measuring it alone. Its slabs are from
  /// the context's memory: it must not outlive that. Throws what DataLoader throws.
  std::unique_ptr<DataLoader> make_loader(const Plan& plan,
                                          const std::optional<HostCut>& cut) const;

  State state();
  /// Puts `state` back in place.
  void restore(const State& state);

  const Pipeline& pipeline() const;
  const Plan::Numerics& numerics() const;
  Context& context() const;
  std::uint64_t position() const;
  /// Of all losses since the trainer was made (or of the restored state), the weights and the
  /// optimizer's state. Waits for the device.
  std::uint64_t digest() const;

 private:
  friend struct Inside;
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

struct AutoResult {
  AutoChoice choice;
  /// All steps of the training, with those that were measured. Rate, wait for input, lanes and
  /// memory are the last part's, under the plan that was kept.
  RunResult run;
};

/// Measures `serial` and `pipelined` in turns for a few steps each (real steps of the run), each
/// lane of `pipelined` alone (on a cached batch; the state is put back), and goes on with
/// `pipelined` where its steady steps were faster, else with `serial`: so with too few steps to
/// measure. Steps that batches filled ahead of a turn may have fed do not count.
AutoResult run_auto(Trainer& trainer, const Plan& serial, const Plan& pipelined,
                    const RunOptions& options);

/// (Ts - Tp) / (Ts - Tm), T = 1 / rate, of serial, pipelined and the slowest lane alone: the share
/// of the largest possible gain that overlapping reached, with the widest interval that the three
/// intervals allow. 0 where there is nothing to gain.
Measured overlap_efficiency(const Measured& serial, const Measured& pipelined,
                            const Measured& slowest_lane);

/// Steps per second of each lane of `plan` alone, on cached batches: of those that were measured
/// before `stop` (asked as in a run) said to end. `progress` hears of each step, with its lane in
/// Progress::measuring. The state is put back, whatever happens.
std::vector<std::pair<std::string, Measured>> measure_lanes_alone(
    Trainer& trainer, const Plan& plan, std::uint64_t steps, const std::function<bool()>& stop = {},
    const std::function<void(const Progress&)>& progress = {});

}  // namespace slipstream
