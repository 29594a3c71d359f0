#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "slipstream/engine/train_step.h"

namespace torch::nn {
class Module;
}  // namespace torch::nn

namespace slipstream {

/// Returns the parameters and buffers of a module, named as in PyTorch's state_dict(). These are
/// the tensors themselves, not copies.
std::vector<NamedTensor> named_tensors(const torch::nn::Module& module);
/// Returns the parameters and buffers of all modules of a training step. Names begin with the name
/// of the module.
std::vector<NamedTensor> named_tensors(const TrainStep& step);

/// Writes the parameters and buffers of `module` to a .safetensors file, with the names, shapes and
/// dtypes that they have in PyTorch's state_dict(), and with the metadata that PyTorch programs
/// write ("format": "pt"). The file is written completely or not at all, even if the machine loses
/// power. Waits for the device. Throws Error, with the path, if the file cannot be written, and for
/// a tensor that such a file cannot store: an unsupported dtype, or the name "__metadata__". To
/// read it in Python: model.load_state_dict(safetensors.torch.load_file(path)).
void save_weights(const torch::nn::Module& module, const std::filesystem::path& path);

/// Options of load_weights().
struct LoadWeightsOptions {
  /// Whether to load the matching weights even if others do not match: tensors that are missing in
  /// the file, have another shape there, or are not part of the module. Used for a model with
  /// another number of classes.
  bool partial = false;
};

/// Names of the tensors that load_weights() skipped or converted.
struct LoadedWeights {
  std::vector<std::string> missing;      ///< in the module, but not in the file
  std::vector<std::string> unexpected;   ///< in the file, but not in the module
  std::vector<std::string> other_shape;  ///< such as "fc.weight (10 x 512 here, 1000 x 512 there)"
  /// Skipped, because one of the two dtypes is not a floating-point type, such as "fc.weight
  /// (float32 here, int8 there)".
  std::vector<std::string> other_dtype;
  /// Loaded, such as "fc.weight (float32 here, float16 there)".
  std::vector<std::string> converted;
};

/// Copies weights from a .safetensors file, or from a checkpoint (a folder; its averages, if it has
/// any), into the parameters and buffers of `module` with the same names, as PyTorch's
/// load_state_dict() does. float16, bfloat16, float32 and float64 are converted to each other.
/// Other dtypes must be equal, because quantized weights need a scale. If the call throws, the
/// module is unchanged. Waits for the device. Throws Refused if the file is not a .safetensors file
/// (the message has the line of Python that converts a .pt file of torch.save()); without
/// `partial`, if any name, shape or dtype does not match (the message lists all of them); and if
/// elements of a tensor share memory in the module (expand()) but differ in the file.
LoadedWeights load_weights(torch::nn::Module& module, const std::filesystem::path& path,
                           const LoadWeightsOptions& options = {});
/// Loads weights into tensors with names, such as named_tensors() of a training step. Otherwise
/// works as the overload for a module.
LoadedWeights load_weights(const std::vector<NamedTensor>& tensors,
                           const std::filesystem::path& path,
                           const LoadWeightsOptions& options = {});

}  // namespace slipstream
