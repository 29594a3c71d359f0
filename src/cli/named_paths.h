#pragma once

#include <string>
#include <utility>
#include <vector>

namespace slipstream {

/// Options and the paths that they name; a path "" is not given.
using NamedPaths = std::vector<std::pair<std::string, std::string>>;

/// What a verb writes.
struct OutputPaths {
  NamedPaths files = {};
  NamedPaths folders = {};  ///< the verb makes files in them
};

/// Throws Refused where a verb would replace what it reads or another of its outputs: an output is
/// the same file as an input or as another output, also by another name or link, or is inside a
/// folder that is read, which is a data set or a checkpoint. Every verb calls it before it opens an
/// output.
void refuse_replaced_files(const OutputPaths& outputs, const NamedPaths& inputs);

/// Whether `path`, or where its links lead, is inside the folder `folder`, which is there.
bool is_inside(const std::string& path, const std::string& folder);

/// The checkpoints that `path`, the value of `option`, names: itself, or those in it where it is a
/// folder of checkpoints.
NamedPaths checkpoints_at(const std::string& option, const std::string& path);

/// The folder in the value of --disk-cache, FOLDER=SIZE; none for "".
NamedPaths folder_of_disk_cache(const std::string& disk_cache);

/// The files of a run folder (docs/run-folder.md) that `option` names; none without a path.
NamedPaths files_of_run_folder(const std::string& option, const std::string& path);

}  // namespace slipstream
