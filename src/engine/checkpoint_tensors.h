#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "slipstream/core/error.h"
#include "slipstream/engine/trainer.h"

namespace slipstream {

/// A checkpoint that is not as it was written.
class DamagedCheckpoint : public Refused {
 public:
  using Refused::Refused;
};

/// Of the tensors in each file of a checkpoint.
using FileFingerprints = std::map<std::string, std::uint64_t>;

/// Why the files of a checkpoint cannot hold the tensors of `state`, a sentence for each; empty
/// where they can.
std::vector<std::string> unstorable(const State& state);

/// Writes the tensors of `state` to the files of the checkpoint `folder`. Waits for their devices.
FileFingerprints write_tensors(const State& state, const std::filesystem::path& folder);

/// Fills the tensors of `state`, which has their names and shapes, with new ones, of the checkpoint
/// `folder`, in host memory. Throws DamagedCheckpoint for what was not written so, and Refused for
/// another model or another way of training.
void read_tensors(const std::filesystem::path& folder, const FileFingerprints& fingerprints,
                  State& state);

}  // namespace slipstream
