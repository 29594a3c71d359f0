#pragma once

#include <filesystem>
#include <vector>

#include "core/safetensors.h"
#include "slipstream/engine/weights.h"

namespace slipstream {

/// Names of the files of a checkpoint.
inline constexpr const char* kWeightsFile = "weights.safetensors";
inline constexpr const char* kAveragesFile = "ema.safetensors";
inline constexpr const char* kTrainingFile = "training.safetensors";

/// Returns the reasons why a .safetensors file cannot store these tensors under their names, one
/// sentence each; empty if it can.
std::vector<std::string> unstorable(const std::vector<NamedTensor>& tensors);

/// Writes tensors on any device and in any memory layout to a .safetensors file. Waits for their
/// devices. Throws Error if the file cannot be written, and for the tensors that unstorable()
/// reports. Returns the sum of their tensor_fingerprint().
std::uint64_t store_tensors(const std::vector<NamedTensor>& tensors,
                            const std::filesystem::path& path);

/// Reads one of the file's tensors into host memory. Throws Error if it cannot be read.
at::Tensor stored_tensor(const SafetensorsFile& file, const StoredTensor& stored);

/// Returns a fingerprint of the name, dtype, shape and values of a tensor that is contiguous in
/// host memory.
std::uint64_t tensor_fingerprint(const NamedTensor& tensor);

/// Which dtypes of a file are converted to those of the model.
enum class Conversion { none, between_floats };

/// Compares the tensors of the model with those in a file.
LoadedWeights differences_from(const StoredTensors& stored, const std::vector<NamedTensor>& here,
                               Conversion conversion);
/// Returns true if the values in the file are to be copied to `here`.
bool is_loadable(const StoredTensor& stored, const at::Tensor& here, Conversion conversion);
/// Returns the differences as text, one line for each kind of tensor that was left out; "" if none
/// was.
std::string to_text(const LoadedWeights& differences);

}  // namespace slipstream
