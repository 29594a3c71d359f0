#pragma once

#include <filesystem>
#include <vector>

#include "engine/safetensors.h"
#include "slipstream/engine/weights.h"

namespace slipstream {

/// The files of a checkpoint.
inline constexpr const char* kWeightsFile = "weights.safetensors";
inline constexpr const char* kAveragesFile = "ema.safetensors";
inline constexpr const char* kTrainingFile = "training.safetensors";

/// Why a .safetensors file cannot hold these tensors under their names, a sentence for each; empty
/// where it can.
std::vector<std::string> unstorable(const std::vector<NamedTensor>& tensors);

/// Writes the tensors, from whatever device and in whatever layout, to a .safetensors file. Waits
/// for their devices. Throws Error where it cannot be written, and for what unstorable() names.
/// Returns the sum of tensor_fingerprint() of them.
std::uint64_t store_tensors(const std::vector<NamedTensor>& tensors,
                            const std::filesystem::path& path);

/// One of the file's tensors, in host memory. Throws Error where it cannot be read.
at::Tensor stored_tensor(const SafetensorsFile& file, const StoredTensor& stored);

/// Of name, dtype, shape and values of a tensor that is contiguous in host memory.
std::uint64_t tensor_fingerprint(const NamedTensor& tensor);

/// Dtypes of a file that are converted to those of the model.
enum class Conversion { none, between_floats };

/// How tensors that are here differ from those in a file.
LoadedWeights differences_from(const StoredTensors& stored, const std::vector<NamedTensor>& here,
                               Conversion conversion);
/// Whether the values in the file are to be copied to `here`.
bool is_loadable(const StoredTensor& stored, const at::Tensor& here, Conversion conversion);
/// In words, a line for each kind of what was left out; "" where nothing was.
std::string to_text(const LoadedWeights& differences);

}  // namespace slipstream
