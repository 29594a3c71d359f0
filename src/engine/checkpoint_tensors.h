#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "slipstream/core/error.h"
#include "slipstream/engine/trainer.h"

namespace slipstream {

/// Thrown for a checkpoint whose content differs from what was written.
class DamagedCheckpoint : public Refused {
 public:
  using Refused::Refused;
};

/// Fingerprint of the tensors in each file of a checkpoint, by file name.
using FileFingerprints = std::map<std::string, std::uint64_t>;

/// Returns the reasons why the files of a checkpoint cannot store the tensors of `state`, one
/// sentence each; empty if they can.
std::vector<std::string> unstorable(const State& state);

/// Writes the tensors of `state` to the files of the checkpoint `folder` and returns their
/// fingerprints. Waits for their devices.
FileFingerprints write_tensors(const State& state, const std::filesystem::path& folder);

/// Replaces the tensors of `state` by new tensors in host memory, read from the checkpoint
/// `folder`. On entry, the tensors of `state` give the expected names and shapes. Throws
/// DamagedCheckpoint if a file differs from what was written, and Refused if the checkpoint is of
/// another model or another kind of training.
void read_tensors(const std::filesystem::path& folder, const FileFingerprints& fingerprints,
                  State& state);

}  // namespace slipstream
