#include "cli/named_paths.h"

#include <filesystem>

#include "core/files.h"
#include "core/number_text.h"
#include "engine/checkpoint_folder.h"
#include "engine/checkpoint_record.h"
#include "slipstream/core/error.h"

namespace slipstream {
namespace {

namespace fs = std::filesystem;

void refuse_same(const std::pair<std::string, std::string>& output, const NamedPaths& others) {
  for (const auto& [option, path] : others)
    if (!output.second.empty() && !path.empty() && is_same_file(output.second, path))
      throw Refused(output.first + " and " + option + " name the same file, " + path +
                    ": one would replace the other");
}

void refuse_inside(const std::pair<std::string, std::string>& output, const NamedPaths& inputs) {
  for (const auto& [option, path] : inputs) {
    // A folder is refused later.
    const bool is_file = option == "--plan" || option == "--transforms";
    if (is_file || output.second.empty() || path.empty()) continue;
    if (!is_inside(output.second, path)) continue;
    const std::string start = output.first + " " + output.second + " is in ";
    std::error_code failed;
    if (fs::exists(fs::path(path) / kRecordFile, failed))
      throw Refused(start + "the checkpoint of " + option + ", " + path +
                    ", which is read: write it elsewhere");
    throw Refused(start + "the data, " + path + ": it would be read as data; write it elsewhere");
  }
}

}  // namespace

bool is_inside(const std::string& path, const std::string& folder) {
  std::error_code failed;
  if (!fs::is_directory(folder, failed)) return false;
  const fs::path top = fs::canonical(folder, failed);
  if (failed) return false;
  // A link inside the folder is part of the folder, even if its target is elsewhere.
  const fs::path parent = fs::weakly_canonical(fs::absolute(path, failed).parent_path(), failed);
  for (const fs::path& place : {resolve_path(fs::path(path)), parent}) {
    const fs::path from_top = place.lexically_relative(top);
    if (!place.empty() && !from_top.empty() && *from_top.begin() != "..") return true;
  }
  return false;
}

void refuse_replaced_files(const OutputPaths& outputs, const NamedPaths& inputs) {
  NamedPaths others = inputs;
  for (auto one = outputs.files.rbegin(); one != outputs.files.rend(); ++one) {
    refuse_same(*one, others);
    refuse_inside(*one, inputs);
    others.push_back(*one);
  }
  for (const auto& folder : outputs.folders) refuse_inside(folder, inputs);
}

NamedPaths checkpoints_at(const std::string& option, const std::string& path) {
  NamedPaths found;
  if (path.empty()) return found;
  for (const FoundCheckpoint& each : checkpoints_in(path))
    found.emplace_back(option, each.path.string());
  if (found.empty()) found.emplace_back(option, path);
  return found;
}

NamedPaths folder_of_disk_cache(const std::string& disk_cache) {
  if (disk_cache.empty()) return {};
  return {{"--disk-cache", named_size("--disk-cache", disk_cache).first}};
}

NamedPaths files_of_run_folder(const std::string& option, const std::string& path) {
  NamedPaths files;
  if (path.empty()) return files;
  for (const char* name : {"run.json", "metrics.jsonl", "metrics.csv", "curves.svg"})
    files.emplace_back(option + "'s " + name, (fs::path(path) / name).string());
  return files;
}

}  // namespace slipstream
