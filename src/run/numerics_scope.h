#pragma once

#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

#include "slipstream/plan/plan.h"

namespace slipstream {

/// PyTorch's process-wide switches as `numerics` wants them; put back at the end.
class NumericsScope {
 public:
  explicit NumericsScope(const Plan::Numerics& numerics);
  ~NumericsScope();
  NumericsScope(const NumericsScope&) = delete;
  NumericsScope& operator=(const NumericsScope&) = delete;

 private:
  bool tf32_cudnn_, tf32_cublas_, benchmark_, deterministic_cudnn_, deterministic_, warn_only_,
      fill_;
};

/// The calling thread's switches for one step: autocast, and on CPU lanes the number of threads
/// inside an operation; put back at the end.
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
