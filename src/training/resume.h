#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "slipstream/engine/checkpoint.h"

namespace slipstream {

/// The value of --resume and resume= for the latest checkpoint in the folder of checkpoints.
inline constexpr const char* kLatest = "auto";

/// Loads the checkpoint that a training resumes from. `resume`: kLatest, which needs `checkpoints`;
/// the path of a checkpoint or of a folder of them; or "" for none. `checkpoints`: those of
/// `folder`, or nullptr. Throws Refused as Checkpoints::load() does, and if `resume` is "" but the
/// folder has checkpoints; `remedy` says how a user resumes from these, such as "--resume auto".
std::optional<LoadedCheckpoint> load_resumed(Trainer& trainer, Checkpoints* checkpoints,
                                             const std::filesystem::path& folder,
                                             const std::string& resume, const std::string& remedy);

/// Returns the seed of the training that `resume`, as for load_resumed(), names, or no value if
/// none of its checkpoints can be read.
std::optional<std::uint64_t> seed_of_resumed(const std::filesystem::path& folder,
                                             const std::string& resume);

}  // namespace slipstream
