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
  std::uint64_t step = 0;  ///< the number of steps that were trained when the model had it
};

/// How good the model is where it is saved.
struct CheckpointScore {
  std::string metric;
  double value = 0;
  bool is_best = false;  ///< whether `best` shall name this checkpoint; needs a finite value
  std::uint64_t epochs_since_best = 0;
  std::vector<BestOfScore> best_scores = {};  ///< of all scores, for the record
};

/// Where and how often a training is saved.
struct CheckpointOptions {
  /// The folder, which is made where it is missing. It belongs to one run at a time. A checkpoint
  /// is a folder in it, step-N, with weights.safetensors (parameters and buffers, as in PyTorch's
  /// state_dict()), ema.safetensors where averages are kept, training.safetensors (the optimizer's
  /// state and the like) and checkpoint.json. `best` is a link to the one with the best score.
  std::filesystem::path folder;
  std::uint64_t save_every = 0;  ///< steps between two checkpoints during runs; 0: none
  std::size_t keep = 3;          ///< the latest of them, at least 1; the best one stays beside them
  std::string program = {};      ///< name and version of what trains, for the record alone
  std::string notes = {};        ///< JSON, for the record alone; "": none
};

/// What load_checkpoint() read beside the state.
struct LoadedCheckpoint {
  std::filesystem::path path;
  std::uint64_t step = 0;
  /// The best score of the training so far, and the step that had it; no value: there is none.
  std::optional<CheckpointScore> best = std::nullopt;
  std::uint64_t best_step = 0;
  /// The best value of each score so far. `best` alone where an earlier version of the program
  /// saved the checkpoint.
  std::vector<BestOfScore> best_scores = {};
  std::uint64_t scored_step = 0;  ///< of the last evaluation; 0: there was none
  /// What was found to be damaged or unreadable and passed over, a line each.
  std::vector<std::string> passed_over = {};
};

/// Saves a training, beside its runs and between them. During a run the state is copied on the
/// device behind a step, and a thread writes the copy while the training goes on. Where the last
/// one is still being written, a checkpoint is left out.
///
/// A checkpoint is there whole or not at all, even if the process or the machine ends at any
/// moment. What cannot be written (a full disk, a folder that is gone) does not end the training:
/// problem() tells, and the next one is tried.
class Checkpoints {
 public:
  /// Takes the folder. `trainer` must outlive this. Throws Refused for a folder that cannot be made
  /// or written, or that another run has, and for a model with a tensor that a .safetensors file
  /// cannot hold: of another dtype, or named "__metadata__".
  Checkpoints(CheckpointOptions options, Trainer& trainer);
  /// Waits until what is being written is on the disk.
  ~Checkpoints();
  Checkpoints(const Checkpoints&) = delete;
  Checkpoints& operator=(const Checkpoints&) = delete;

  /// load_latest_checkpoint() of the folder; the best score goes on from there.
  std::optional<LoadedCheckpoint> load_latest();
  /// load_checkpoint(); the best score goes on from there. Throws Refused, too, where the folder
  /// has checkpoints of later steps, which would hide those of this run.
  LoadedCheckpoint load(const std::filesystem::path& path);
  /// The plan under which is trained, as JSON, for the record alone. Not during a run.
  void set_plan(std::string json);
  /// Lets a run with these options save every `save_every` steps, counted from the beginning of the
  /// training. This must outlive the run.
  void save_during(RunOptions& options);
  /// Saves the state of the trainer, on the calling thread. Waits for the device and the disk.
  /// False where it could not be written: problem() says why.
  bool save(const std::optional<CheckpointScore>& score = std::nullopt);
  /// What went wrong with writing since the last call, with path and reason; "" for nothing.
  std::string problem();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Puts a checkpoint back into `trainer`, which goes on from there to the bits of a run that was
/// not interrupted. `path` is the checkpoint itself, step-N or `best`. Waits for the device. Throws
/// Refused, leaving the trainer as it was, for what is damaged, not a checkpoint or of a later
/// version, and for one of another training: another model (with what is missing, too much, or of
/// another shape or dtype), seed, batch size, number of samples or optimizer.
LoadedCheckpoint load_checkpoint(Trainer& trainer, const std::filesystem::path& path);

/// Puts the latest checkpoint in `folder` back, or, where that is damaged, the one before. No value
/// where the folder has none. Throws Refused as above, and where all of them are damaged.
std::optional<LoadedCheckpoint> load_latest_checkpoint(Trainer& trainer,
                                                       const std::filesystem::path& folder);

}  // namespace slipstream
