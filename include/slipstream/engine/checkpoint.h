#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "slipstream/engine/trainer.h"

namespace slipstream {

/// The best value of a score so far.
struct BestOfScore {
  std::string metric;      ///< the name of the score
  double value = 0;        ///< finite
  std::uint64_t step = 0;  ///< the number of trained steps when the model reached it
};

/// The score of the model in a checkpoint that is being saved.
struct CheckpointScore {
  std::string metric;
  double value = 0;
  /// Whether the link `best` is set to this checkpoint; requires a finite value.
  bool is_best = false;
  std::uint64_t epochs_since_best = 0;
  /// Best values of all scores, stored in checkpoint.json.
  std::vector<BestOfScore> best_scores = {};
};

/// Options that set where and how often a training is saved.
struct CheckpointOptions {
  /// The folder of the checkpoints, which is created if it does not exist. Only one run at a time
  /// may use it. A checkpoint is a subfolder, step-N, with weights.safetensors (parameters and
  /// buffers, named as in PyTorch's state_dict()), ema.safetensors if averages are kept,
  /// training.safetensors (the optimizer's state and other tensors of the training step) and
  /// checkpoint.json. `best` is a link to the checkpoint with the best score.
  std::filesystem::path folder;
  std::uint64_t save_every = 0;  ///< steps between two checkpoints during a run; 0 saves none
  /// Number of latest checkpoints to keep, at least 1; the best one is kept as well.
  std::size_t keep_last = 3;
  /// Name and version of the program that trains; only stored in checkpoint.json.
  std::string program = {};
  std::string notes = {};  ///< JSON text, only stored in checkpoint.json; "": none
};

/// What load_checkpoint() read in addition to the state.
struct LoadedCheckpoint {
  std::filesystem::path path;
  std::uint64_t step = 0;
  /// The best score of the training so far, reached at step `best_step`; no value if there is none.
  std::optional<CheckpointScore> best = std::nullopt;
  std::uint64_t best_step = 0;
  /// The best value of each score so far. It contains only `best` if an earlier version of the
  /// program saved the checkpoint.
  std::vector<BestOfScore> best_scores = {};
  std::uint64_t scored_step = 0;  ///< step of the last evaluation; 0: there was none
  /// One line for each checkpoint that was skipped because it is damaged or unreadable.
  std::vector<std::string> passed_over = {};
};

/// Saves checkpoints of a training, during its runs and between them. During a run, the state is
/// copied on the device after a step, and a separate thread writes the copy while training
/// continues. If the previous checkpoint is still being written, a new one is skipped.
///
/// A checkpoint is either complete or absent, even if the process or the machine fails at any
/// moment. If a checkpoint cannot be written (the disk is full, the folder was removed), the
/// training continues, problem() returns the reason, and the next checkpoint is tried.
class Checkpoints {
 public:
  /// Locks the folder for this process. `trainer` must outlive this object. Throws Refused if the
  /// folder cannot be created or written, if another run uses it, and if the model has a tensor
  /// that a .safetensors file cannot store: an unsupported dtype, or the name "__metadata__".
  Checkpoints(CheckpointOptions options, Trainer& trainer);
  /// Waits until the checkpoint that is being written is on the disk.
  ~Checkpoints();
  Checkpoints(const Checkpoints&) = delete;
  Checkpoints& operator=(const Checkpoints&) = delete;

  /// Calls load_latest_checkpoint() for the folder and continues with the best score of that
  /// checkpoint.
  std::optional<LoadedCheckpoint> load_latest();
  /// Calls load_checkpoint() and continues with the best score of that checkpoint. Also throws
  /// Refused if the folder has checkpoints of later steps, because they would hide the checkpoints
  /// of this run.
  LoadedCheckpoint load(const std::filesystem::path& path);
  /// Sets the plan of the training, as JSON. It is only stored in checkpoint.json. Must not be
  /// called during a run.
  void set_plan(std::string json);
  /// Makes a run with these options save every `save_every` steps, counted from the start of the
  /// training. This object must outlive the run.
  void save_during(RunOptions& options);
  /// Saves the state of the trainer on the calling thread. Waits for the device and the disk.
  /// Returns false if the state could not be written; problem() then returns the reason.
  bool save(const std::optional<CheckpointScore>& score = std::nullopt);
  /// Returns the write errors since the last call, with path and reason; "" if there were none.
  std::string problem();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Restores a checkpoint into `trainer`. Training from there gives the same bits as a run that was
/// not interrupted. `path` is the checkpoint itself, step-N or `best`. Waits for the device. Throws
/// Refused, and leaves the trainer unchanged, if the folder is damaged, is not a checkpoint or was
/// written by a later version, and if it belongs to another training: another model (the message
/// lists missing and unexpected tensors and those of another shape or dtype), seed, batch size,
/// number of samples or optimizer.
LoadedCheckpoint load_checkpoint(Trainer& trainer, const std::filesystem::path& path);

/// Restores the latest checkpoint in `folder` or, if it is damaged, the latest one that is not.
/// Returns no value if the folder has no checkpoint. Throws Refused as load_checkpoint() does, and
/// if all checkpoints are damaged.
std::optional<LoadedCheckpoint> load_latest_checkpoint(Trainer& trainer,
                                                       const std::filesystem::path& folder);

}  // namespace slipstream
