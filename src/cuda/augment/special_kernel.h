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

/// Everything that a kernel is compiled for.
struct SpecialPurpose {
  PassProgram pass;
  /// The step that needs Statistics of the pass's output, which are then collected instead of
  /// storing the output.
  std::optional<ProgramStep> measured;
  PassMemory formats;  ///< without pointers
  std::int32_t channels;
  LaunchShape shape;
  std::string functions;  ///< functions_source()
};

/// A kernel for one pass over images, compiled at run time. Everything that all samples share is a
/// constant in it, so that it contains no code that the pass does not need.
class SpecialKernel {
 public:
  /// Compiles the kernel for the current device.
  explicit SpecialKernel(const SpecialPurpose& purpose);

  void launch(const PassMemory& memory, cudaStream_t stream) const;

 private:
  std::shared_ptr<void> library_;
  cudaKernel_t kernel_ = nullptr;
  LaunchShape shape_;
  unsigned threads_ = 0;
};

/// Returns the kernel's source in CUDA C++.
std::string special_source(const SpecialPurpose& purpose);
/// Compiles source to machine code for an architecture such as "sm_90". Throws Error with the
/// compiler's messages.
std::string compiled(const std::string& source, const std::string& architecture);

}  // namespace slipstream::augment
