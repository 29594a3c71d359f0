#include "engine/checkpoint_tensors.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <string_view>

#include "engine/stored_tensors.h"

namespace slipstream {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kAverage = "ema.";

bool is_average(const NamedTensor& tensor) { return tensor.name.starts_with(kAverage); }

/// The tensors of one file, with their names in the file. Averages have the names of the model's
/// tensors.
struct File {
  const char* name;
  std::vector<NamedTensor> tensors;
  std::vector<NamedTensor*> filled;  ///< the corresponding tensors in the state
};

std::vector<File> list_files(State& state) {
  std::vector<File> files = {
      {kWeightsFile, {}, {}}, {kTrainingFile, {}, {}}, {kAveragesFile, {}, {}}};
  for (NamedTensor& each : state.model) {
    files[0].tensors.push_back(each);
    files[0].filled.push_back(&each);
  }
  for (NamedTensor& each : state.training) {
    File& file = files[is_average(each) ? 2 : 1];
    file.tensors.push_back(each);
    if (is_average(each)) file.tensors.back().name.erase(0, kAverage.size());
    file.filled.push_back(&each);
  }
  if (files[2].tensors.empty()) files.pop_back();
  return files;
}

SafetensorsFile opened(const fs::path& path) {
  try {
    return SafetensorsFile(path);
  } catch (const Error& error) {
    throw DamagedCheckpoint(error.what());
  }
}

/// Reads all tensors of a file, by name, and checks their fingerprint.
std::map<std::string, at::Tensor> read_whole(const SafetensorsFile& stored,
                                             std::uint64_t fingerprint) {
  std::map<std::string, at::Tensor> tensors;
  std::uint64_t found = 0;
  for (const StoredTensor& each : stored.header().tensors) {
    at::Tensor& tensor = tensors[each.name];
    try {
      tensor = stored_tensor(stored, each);
    } catch (const Error& error) {
      throw DamagedCheckpoint(error.what());
    }
    // A sum, because the file has the tensors in another order than the state.
    found += tensor_fingerprint({each.name, tensor});
  }
  if (found != fingerprint)
    throw DamagedCheckpoint(stored.path().string() +
                            " is damaged: its values are not those that were written");
  return tensors;
}

void read_file(const fs::path& path, std::uint64_t fingerprint, File& file) {
  const SafetensorsFile stored = opened(path);
  const std::map<std::string, at::Tensor> tensors = read_whole(stored, fingerprint);
  const std::string differences =
      to_text(differences_from(stored.header(), file.tensors, Conversion::none));
  if (!differences.empty())
    throw Refused("the checkpoint is of another " +
                  std::string(file.name == kTrainingFile
                                  ? "optimizer, or of a training with other options"
                                  : "model") +
                  "; " + path.string() + ":" + differences);
  for (std::size_t i = 0; i < file.tensors.size(); ++i)
    file.filled[i]->tensor = tensors.at(file.tensors[i].name);
}

}  // namespace

std::vector<std::string> unstorable(const State& state) {
  State written = state;
  std::vector<std::string> problems;
  for (const File& file : list_files(written))
    for (std::string& each : unstorable(file.tensors)) problems.push_back(std::move(each));
  return problems;
}

FileFingerprints write_tensors(const State& state, const fs::path& folder) {
  State written = state;
  FileFingerprints fingerprints;
  for (const File& file : list_files(written))
    fingerprints[file.name] = store_tensors(file.tensors, folder / file.name);
  return fingerprints;
}

void read_tensors(const fs::path& folder, const FileFingerprints& fingerprints, State& state) {
  const at::NoGradGuard no_gradients;
  std::vector<File> files = list_files(state);
  for (const auto& [name, fingerprint] : fingerprints) {
    const auto same = [&name = name](const File& file) { return file.name == name; };
    if (std::none_of(files.begin(), files.end(), same))
      throw Refused("the checkpoint " + folder.string() + " has " + name +
                    ", which this training does not have: it was made with other training options");
  }
  for (File& file : files) {
    const auto known = fingerprints.find(file.name);
    if (known == fingerprints.end())
      throw Refused("the checkpoint " + folder.string() + " has no " + file.name +
                    ": it was made with other training options");
    read_file(folder / file.name, known->second, file);
  }
}

}  // namespace slipstream
