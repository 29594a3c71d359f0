#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "cli/verbs.h"
#include "slipstream/engine/checkpoint.h"
#include "slipstream/engine/weights.h"

namespace CLI {
class App;
}

namespace slipstream {

/// The options for the initial weights of a training and for its checkpoints.
struct CheckpointFlags {
  std::string weights, checkpoint, resume;
  bool weights_partial = false;
  std::string hint;  ///< added to the error for weights of another model; may be ""
  std::optional<std::uint64_t> save_every;
  std::optional<std::size_t> keep_last;

  /// Adds the options to `verb`. This object must outlive the parser.
  void add_to(CLI::App& verb);
  /// Throws Refused for options that have no effect without another one.
  void check() const;
  /// Loads --weights, if given, and prints which of them were not used. Throws Refused.
  void load_weights_into(const Pipeline& pipeline) const;
  /// Opens the folder of --checkpoint. Returns nullptr if none was given. `notes`: JSON for the
  /// record.
  std::unique_ptr<Checkpoints> open(Trainer& trainer, std::uint64_t steps,
                                    const std::string& notes) const;
  /// Restores the checkpoint that --resume selects, and prints this. Throws Refused if a new
  /// training would use a folder that already contains checkpoints.
  std::optional<LoadedCheckpoint> load(Trainer& trainer, Checkpoints* checkpoints) const;

 private:
  LoadedWeights loaded_into(const Pipeline& pipeline) const;
};

}  // namespace slipstream
