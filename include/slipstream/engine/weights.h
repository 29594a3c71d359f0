#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "slipstream/engine/train_step.h"

namespace torch::nn {
class Module;
}  // namespace torch::nn

namespace slipstream {

/// The parameters and buffers of a module, themselves, with their names in PyTorch's state_dict().
std::vector<NamedTensor> named_tensors(const torch::nn::Module& module);
/// The same of all modules of a training step. Names begin with the name of the module.
std::vector<NamedTensor> named_tensors(const TrainStep& step);

/// Writes the parameters and buffers of `module` to a .safetensors file, with the names, shapes and
/// dtypes that they have in PyTorch's state_dict(), and metadata as PyTorch's users write it
/// ("format": "pt"). The file is there whole or not at all, even if the machine loses power. Waits
/// for the device. Throws Error, naming the path, where it cannot be written, and for a tensor that
/// such a file cannot hold: of another dtype, or named "__metadata__". In Python:
/// model.load_state_dict(safetensors.torch.load_file(path)).
void save_weights(const torch::nn::Module& module, const std::filesystem::path& path);

/// Options of load_weights().
struct LoadWeightsOptions {
  /// Whether weights are taken although some of the module's are not in the file, have another
  /// shape there, or are not the module's: for another number of classes.
  bool partial = false;
};

/// What load_weights() left out or converted, by name.
struct LoadedWeights {
  std::vector<std::string> missing;      ///< the file does not have them
  std::vector<std::string> unexpected;   ///< the module does not have them
  std::vector<std::string> other_shape;  ///< such as "fc.weight (10 x 512 here, 1000 x 512 there)"
  /// Not converted, since one of the two is not a floating-point type: such as "fc.weight (float32
  /// here, int8 there)".
  std::vector<std::string> other_dtype;
  /// Loaded, such as "fc.weight (float32 here, float16 there)".
  std::vector<std::string> converted;
};

/// Copies weights of a .safetensors file, or of a checkpoint (a folder; its averages, where it has
/// any), into the parameters and buffers of `module` that have
/// their names, as PyTorch's load_state_dict() does. float16, bfloat16, float32 and float64 are
/// converted to each other; other dtypes must be equal, as quantized weights need a scale. The
/// module is unchanged where this throws. Waits for the device. Throws Refused for a file
/// that is not one, with the line of Python that makes one of a .pt file of torch.save(); without
/// `partial`, where a name, a shape or a dtype does not fit, with all that do not; and where the
/// elements of a tensor share memory here (expand()) and differ in the file.
LoadedWeights load_weights(torch::nn::Module& module, const std::filesystem::path& path,
                           const LoadWeightsOptions& options = {});
/// The same for tensors with their names, such as named_tensors() of a training step.
LoadedWeights load_weights(const std::vector<NamedTensor>& tensors,
                           const std::filesystem::path& path,
                           const LoadWeightsOptions& options = {});

}  // namespace slipstream
