#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <optional>
#include <string>

#include "cuda/augment/kernels.h"
#include "cuda/augment/launch_shape.h"
#include "cuda/augment/pass_memory.h"
#include "cuda/augment/program.h"

namespace slipstream::augment {

/// What a kernel is compiled for.
struct SpecialPurpose {
  PassProgram pass;
  /// The step that takes the mean of what the pass makes: its terms are added up, not stored.
  std::optional<ProgramStep> contrast;
  PassMemory formats;  ///< without pointers
  std::int32_t channels;
  LaunchShape shape;
  std::string functions;  ///< functions_source()
};

/// A kernel of one pass over images, compiled while the program runs: what is the same for all
/// samples is constant in it, so that it does nothing that the pass does not ask for.
class SpecialKernel {
 public:
  /// For the current device.
  explicit SpecialKernel(const SpecialPurpose& purpose);

  void launch(const PassMemory& memory, cudaStream_t stream) const;

 private:
  std::shared_ptr<void> library_;
  cudaKernel_t kernel_ = nullptr;
  LaunchShape shape_;
  unsigned threads_ = 0;
};

/// Its source, in CUDA C++.
std::string special_source(const SpecialPurpose& purpose);
/// Its machine code for an architecture such as "sm_90". Throws Error with the compiler's words.
std::string compiled(const std::string& source, const std::string& architecture);

}  // namespace slipstream::augment
