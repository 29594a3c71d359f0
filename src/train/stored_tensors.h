#pragma once

#include <filesystem>
#include <vector>

#include "checkpoints/safetensors.h"
#include "slipstream/train/weights.h"

namespace slipstream {

/// The files of a checkpoint.
inline constexpr const char* kWeightsFile = "weights.safetensors";
inline constexpr const char* kAveragesFile = "ema.safetensors";
inline constexpr const char* kTrainingFile = "training.safetensors";

/// Writes the tensors, from whatever device and in whatever layout, to a .safetensors file. Waits
/// for their devices. Throws Error where it cannot be written, and for a dtype that the format has
/// not. Returns the sum of fingerprint_of() them.
std::uint64_t store_tensors(const std::vector<NamedTensor>& tensors,
                            const std::filesystem::path& path);

/// One of the file's tensors, in host memory. Throws Error where it cannot be read.
at::Tensor stored_tensor(const SafetensorsFile& file, const StoredTensor& stored);

/// Of name, dtype, shape and values of a tensor that is contiguous in host memory.
std::uint64_t fingerprint_of(const NamedTensor& tensor);

/// How tensors that are here differ from those in a file.
LeftOutWeights differences_from(const StoredTensors& stored, const std::vector<NamedTensor>& here);
/// In words, a line for each kind; "" where there are none.
std::string text_of(const LeftOutWeights& differences);

}  // namespace slipstream
