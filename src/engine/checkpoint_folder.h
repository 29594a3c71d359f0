#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

namespace slipstream {

/// A checkpoint in a folder of checkpoints.
struct FoundCheckpoint {
  std::filesystem::path path;
  std::uint64_t step = 0;
};

/// Returns the step in the name of a checkpoint; no value if it is not the name of a checkpoint.
std::optional<std::uint64_t> parse_step(const std::filesystem::path& path);

/// Returns the checkpoints in `folder`, found only by their names, the latest step first. Empty if
/// the folder does not exist.
std::vector<FoundCheckpoint> checkpoints_in(const std::filesystem::path& folder);

/// The folder in which one run keeps its checkpoints: complete folders step-N, and the links `best`
/// and `last` to two of them. Whenever the process ends, and even if the machine loses power, each
/// of these names refers to a checkpoint that was written completely, and the previous checkpoint
/// is removed only after that.
class CheckpointFolder {
 public:
  /// Creates the folder if it does not exist, locks it for this process, and removes unfinished
  /// files of a process that was killed. Throws Refused if it cannot be created or written, if
  /// another run has locked it, and if `best` or `last` is a folder, which a link would replace.
  explicit CheckpointFolder(std::filesystem::path folder);
  ~CheckpointFolder();
  CheckpointFolder(const CheckpointFolder&) = delete;
  CheckpointFolder& operator=(const CheckpointFolder&) = delete;

  const std::filesystem::path& path() const { return folder_; }
  /// Creates step-N: calls `fill` with a temporary folder, to which it writes files durably, and
  /// renames that folder. Replaces an existing checkpoint of that step. Creates the checkpoint
  /// folder again if it was removed. Throws Error, or what `fill` throws; existing checkpoints are
  /// then unchanged.
  std::filesystem::path add(std::uint64_t step,
                            const std::function<void(const std::filesystem::path&)>& fill);
  /// Sets the link `best` to the checkpoint of `step`. Throws Error.
  void set_best(std::uint64_t step);
  /// Sets the link `last` to the checkpoint of `step`. Does nothing if the file system does not
  /// support links. Throws Error.
  void set_last(std::uint64_t step);
  /// Removes checkpoints up to step `latest`, except the `count` latest of them (at least one) and
  /// those that `best` and `last` refer to. Later checkpoints are not touched. Throws Error.
  void keep(std::size_t count, std::uint64_t latest);

 private:
  void take();
  void release_lock();
  std::error_code link_to(std::uint64_t step, const std::string& name);
  bool is_taken() const;

  std::filesystem::path folder_;
  int lock_ = -1;
};

}  // namespace slipstream
