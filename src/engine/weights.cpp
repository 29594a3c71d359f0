#include "slipstream/engine/weights.h"

#include <ATen/core/grad_mode.h>
#include <torch/nn/module.h>

#include <array>
#include <fstream>

#include "core/safetensors.h"
#include "engine/copy_values.h"
#include "engine/stored_tensors.h"
#include "slipstream/core/error.h"

namespace slipstream {
namespace {

bool is_of_torch_save(const std::filesystem::path& path) {
  std::array<char, 2> begin{};
  std::ifstream(path, std::ios::binary).read(begin.data(), begin.size());
  // torch.save() writes a zip file or, in its older format, a pickle of protocol 2.
  return begin == std::array{'P', 'K'} || begin == std::array{'\x80', '\x02'};
}

/// Returns `path` if it is a file, or the file with the weights if it is the folder of a
/// checkpoint.
std::filesystem::path file_at(const std::filesystem::path& path) {
  std::error_code failed;
  if (!std::filesystem::is_directory(path, failed)) return path;
  for (const char* file : {kAveragesFile, kWeightsFile})
    if (std::filesystem::exists(path / file, failed)) return path / file;
  throw Refused("the folder " + path.string() +
                " is not a checkpoint: give one of the checkpoints in it, such as " +
                (path / "best").string() + " or " + (path / "last").string());
}

/// As a text of Python between apostrophes, inside quotation marks of a shell.
std::string shell_quoted(const std::string& text) {
  std::string quoted = "'";
  for (const char c : text) {
    if (c == '\'' || c == '"' || c == '$' || c == '`') quoted += '\\';
    if (c == '\\') quoted += "\\\\\\";
    quoted += c;
  }
  return quoted + "'";
}

SafetensorsFile opened(const std::filesystem::path& given) {
  const std::filesystem::path path = file_at(given);
  try {
    return SafetensorsFile(path);
  } catch (const Error& error) {
    if (!is_of_torch_save(path)) throw Refused(error.what());
  }
  throw Refused(
      "cannot read " + path.string() +
      ": it was written by torch.save(); convert it to a .safetensors file with python3 -c "
      "\"import torch, safetensors.torch as s; s.save_file({k: v.contiguous() for k, v in "
      "torch.load(" +
      shell_quoted(path.string()) + ", map_location='cpu', weights_only=True).items()}, " +
      shell_quoted(std::filesystem::path(path).replace_extension(".safetensors").string()) + ")\"");
}

}  // namespace

std::vector<NamedTensor> named_tensors(const torch::nn::Module& module) {
  std::vector<NamedTensor> all;
  for (const auto& each : module.named_parameters()) all.push_back({each.key(), each.value()});
  for (const auto& each : module.named_buffers()) all.push_back({each.key(), each.value()});
  return all;
}

void save_weights(const torch::nn::Module& module, const std::filesystem::path& path) {
  store_tensors(named_tensors(module), path);
}

LoadedWeights load_weights(torch::nn::Module& module, const std::filesystem::path& path,
                           const LoadWeightsOptions& options) {
  return load_weights(named_tensors(module), path, options);
}

LoadedWeights load_weights(const std::vector<NamedTensor>& tensors,
                           const std::filesystem::path& path, const LoadWeightsOptions& options) {
  const SafetensorsFile file = opened(path);
  constexpr Conversion kConversion = Conversion::between_floats;
  const LoadedWeights differences = differences_from(file.header(), tensors, kConversion);
  const std::string text = to_text(differences);
  if (!options.partial && !text.empty())
    throw Refused("the weights in " + path.string() + " belong to another model:" + text);
  const at::NoGradGuard no_gradients;
  std::vector<std::pair<at::Tensor, at::Tensor>> pairs;
  std::vector<std::string> problems;
  for (const auto& [name, tensor] : tensors) {
    const StoredTensor* const stored = file.header().find(name);
    if (stored == nullptr || !is_loadable(*stored, tensor, kConversion)) continue;
    pairs.emplace_back(tensor, stored_tensor(file, *stored));
    if (const std::string lost = lost_by_copy(name, tensor, pairs.back().second); !lost.empty())
      problems.push_back("cannot load the weights in " + path.string() + ": " + lost);
  }
  refuse(problems);
  if (pairs.empty())
    throw Refused("none of the weights in " + path.string() + " is the model's:" + text);
  for (const auto& [tensor, read] : pairs) copy_values(tensor, read);
  return differences;
}

std::vector<NamedTensor> named_tensors(const TrainStep& step) {
  std::vector<NamedTensor> all;
  for (const auto& [name, module] : step.modules())
    for (NamedTensor& each : named_tensors(*module))
      all.push_back({(name.empty() ? "" : name + ".") + each.name, std::move(each.tensor)});
  return all;
}

}  // namespace slipstream
