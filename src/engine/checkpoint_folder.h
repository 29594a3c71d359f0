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

/// The step that the name of a checkpoint says; no value for another name.
std::optional<std::uint64_t> parse_step(const std::filesystem::path& path);

/// The checkpoints in `folder`, by its names alone, the one of the latest step first; empty where
/// there is no such folder.
std::vector<FoundCheckpoint> checkpoints_in(const std::filesystem::path& folder);

/// The folder in which one run keeps its checkpoints: step-N, each whole, and `best` and `last`,
/// links to two of them. Whenever the process ends, and even if the machine loses power, each name
/// is a checkpoint that was written to its end, and the one before was not removed earlier.
class CheckpointFolder {
 public:
  /// Makes the folder where it is missing, takes it for this process, and removes what a process
  /// that was killed had left unfinished. Throws Refused where it cannot be made or written, where
  /// another run has it, and where `best` or `last` is a folder, which a link would replace.
  explicit CheckpointFolder(std::filesystem::path folder);
  ~CheckpointFolder();
  CheckpointFolder(const CheckpointFolder&) = delete;
  CheckpointFolder& operator=(const CheckpointFolder&) = delete;

  const std::filesystem::path& path() const { return folder_; }
  /// Makes step-N of the files that `fill` writes, each onto the disk, into the folder that it is
  /// given. Replaces a checkpoint of that step. Makes the folder anew where it is gone. Throws
  /// Error, or what `fill` throws; what was there is left as it was.
  std::filesystem::path add(std::uint64_t step,
                            const std::function<void(const std::filesystem::path&)>& fill);
  /// Lets `best` name the checkpoint of `step`. Throws Error.
  void set_best(std::uint64_t step);
  /// The same of `last`; does nothing where the file system has no links.
  void set_last(std::uint64_t step);
  /// Of the checkpoints up to step `latest`, removes all but the `count` latest, at least one, and
  /// those that `best` and `last` name. Throws Error.
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
