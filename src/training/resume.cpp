#include "training/resume.h"

#include <vector>

#include "core/files.h"
#include "engine/checkpoint_folder.h"
#include "engine/checkpoint_record.h"

namespace slipstream {

std::optional<LoadedCheckpoint> load_resumed(Trainer& trainer, Checkpoints* checkpoints,
                                             const std::filesystem::path& folder,
                                             const std::string& resume, const std::string& remedy) {
  if (resume == kLatest) return checkpoints->load_latest();
  if (!resume.empty()) {
    const std::vector<FoundCheckpoint> in_it = checkpoints_in(resume);
    const std::filesystem::path path =
        in_it.empty() ? std::filesystem::path(resume) : in_it.front().path;
    return checkpoints != nullptr ? checkpoints->load(path) : load_checkpoint(trainer, path);
  }
  if (checkpoints == nullptr) return std::nullopt;
  if (const std::vector<FoundCheckpoint> found = checkpoints_in(folder); !found.empty())
    throw Refused(folder.string() + " has checkpoints of an earlier run, the latest of step " +
                  std::to_string(found.front().step) + ": continue with " + remedy +
                  ", or give another folder");
  return std::nullopt;
}

std::optional<std::uint64_t> seed_of_resumed(const std::filesystem::path& folder,
                                             const std::string& resume) {
  std::vector<std::filesystem::path> paths;
  for (const FoundCheckpoint& each :
       checkpoints_in(resume == kLatest ? folder : std::filesystem::path(resume)))
    paths.push_back(each.path);
  if (paths.empty()) paths.emplace_back(resume);
  for (const std::filesystem::path& path : paths) try {
      return parse_checkpoint_record(read_text(path / kRecordFile)).seed;
    } catch (const Error&) {
      // A damaged checkpoint; load_resumed() reports it.
    }
  return std::nullopt;
}

}  // namespace slipstream
