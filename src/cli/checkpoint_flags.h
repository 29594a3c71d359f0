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

/// The options of what a training begins with and where it is kept.
struct CheckpointFlags {
  std::string weights, checkpoint, resume;
  bool weights_partial = false;
  std::string hint;  ///< what else to do about weights of another model; "": nothing
  std::optional<std::uint64_t> save_every;
  std::optional<std::size_t> keep;

  /// This must outlive the parser.
  void add_to(CLI::App& verb);
  /// Throws Refused for options that have no effect without another.
  void check() const;
  /// Loads --weights, where they are given, and says what was left out of them. Throws Refused.
  void load_weights_into(const Pipeline& pipeline) const;
  /// Takes the folder of --checkpoint; nullptr where there is none. `notes`: JSON for the record.
  std::unique_ptr<Checkpoints> open(Trainer& trainer, std::uint64_t steps,
                                    const std::string& notes) const;
  /// Goes to where --resume says, and says so. Refuses to begin anew in a folder that has
  /// checkpoints.
  std::optional<LoadedCheckpoint> load(Trainer& trainer, Checkpoints* checkpoints) const;

 private:
  LoadedWeights loaded_into(const Pipeline& pipeline) const;
};

}  // namespace slipstream
