#pragma once

#include <ATen/Context.h>
#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

#include <array>
#include <optional>

#include "slipstream/engine/plan.h"

namespace slipstream {

/// Sets PyTorch's process-wide numerics options to `numerics` during the lifetime of this object,
/// and restores them in the destructor.
class NumericsScope {
 public:
  explicit NumericsScope(const Plan::Numerics& numerics);
  ~NumericsScope();
  NumericsScope(const NumericsScope&) = delete;
  NumericsScope& operator=(const NumericsScope&) = delete;

 private:
  static constexpr std::size_t kPrecisions = 4;

  void keep_precisions();
  void restore_precisions();

  bool benchmark_, deterministic_cudnn_, deterministic_, warn_only_, fill_;
  at::Float32MatmulPrecision matmul_ = at::Float32MatmulPrecision::HIGHEST;
  /// The older interface's setting of cuDNN. nullopt: left as it was.
  std::optional<bool> allows_tf32_cudnn_;
  /// NONE: inherited from the next higher level.
  at::Float32Precision cuda_precision_ = at::Float32Precision::NONE;
  /// nullopt: left as it was, and follows the next higher level.
  std::array<std::optional<at::Float32Precision>, kPrecisions> precisions_{};
};

/// Sets the calling thread's options for one step during the lifetime of this object: autocast and,
/// on CPU lanes, the number of threads inside an operation. Restores them in the destructor.
class StageScope {
 public:
  StageScope(const Plan::Numerics& numerics, c10::Device device, const std::string& stage);
  ~StageScope();
  StageScope(const StageScope&) = delete;
  StageScope& operator=(const StageScope&) = delete;

 private:
  c10::DeviceType device_;
  bool autocast_before_;
  c10::ScalarType autocast_type_before_;
  int threads_before_ = 0;
};

}  // namespace slipstream
