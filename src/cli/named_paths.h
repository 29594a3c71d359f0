#pragma once

#include <string>
#include <utility>
#include <vector>

namespace slipstream {

/// Options and their paths. A path "" means that the option was not given.
using NamedPaths = std::vector<std::pair<std::string, std::string>>;

/// The files and folders that a verb writes.
struct OutputPaths {
  NamedPaths files = {};
  NamedPaths folders = {};  ///< folders in which the verb creates files
};

/// Throws Refused if a verb would overwrite one of its inputs or another output. This is so if an
/// output is the same file as an input or another output, also by another name or a link, or if it
/// is inside a folder that is read (a data set or a checkpoint). Every verb calls this before it
/// opens an output.
void refuse_replaced_files(const OutputPaths& outputs, const NamedPaths& inputs);

/// Whether `path`, or the target of its links, is inside `folder`, which exists.
bool is_inside(const std::string& path, const std::string& folder);

/// Returns the checkpoints at `path`, the value of `option`: `path` itself or, if it is a folder of
/// checkpoints, those in it.
NamedPaths checkpoints_at(const std::string& option, const std::string& path);

/// Returns the folder in the value of --disk-cache, FOLDER=SIZE. Returns nothing for "".
NamedPaths folder_of_disk_cache(const std::string& disk_cache);

/// Returns the files of a run folder (docs/run-folder.md) at `path`, the value of `option`. Returns
/// nothing for "".
NamedPaths files_of_run_folder(const std::string& option, const std::string& path);

}  // namespace slipstream
