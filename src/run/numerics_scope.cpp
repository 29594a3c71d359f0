#include "run/numerics_scope.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/autocast_mode.h>

namespace slipstream {

NumericsScope::NumericsScope(const Plan::Numerics& numerics) {
  auto& torch = at::globalContext();
  tf32_cudnn_ = torch.allowTF32CuDNN();
  tf32_cublas_ = torch.allowTF32CuBLAS();
  benchmark_ = torch.benchmarkCuDNN();
  deterministic_cudnn_ = torch.deterministicCuDNN();
  deterministic_ = torch.deterministicAlgorithms();
  warn_only_ = torch.deterministicAlgorithmsWarnOnly();
  fill_ = torch.deterministicFillUninitializedMemory();
  torch.setAllowTF32CuDNN(numerics.precision == Precision::tf32);
  torch.setAllowTF32CuBLAS(false);
  torch.setBenchmarkCuDNN(numerics.cudnn_benchmark);
  torch.setDeterministicCuDNN(numerics.deterministic);
  torch.setDeterministicAlgorithms(numerics.deterministic, false);
  // Filling fresh memory would hide or change what a missing wait shows.
  torch.setDeterministicFillUninitializedMemory(false);
}

NumericsScope::~NumericsScope() {
  auto& torch = at::globalContext();
  torch.setAllowTF32CuDNN(tf32_cudnn_);
  torch.setAllowTF32CuBLAS(tf32_cublas_);
  torch.setBenchmarkCuDNN(benchmark_);
  torch.setDeterministicCuDNN(deterministic_cudnn_);
  torch.setDeterministicAlgorithms(deterministic_, warn_only_);
  torch.setDeterministicFillUninitializedMemory(fill_);
}

StageScope::StageScope(const Plan::Numerics& numerics, c10::Device device, const std::string& stage)
    : device_(device.type()),
      autocast_before_(at::autocast::is_autocast_enabled(device_)),
      autocast_type_before_(at::autocast::get_autocast_dtype(device_)) {
  if (device.is_cpu()) {
    const auto own = numerics.intra_op_threads.find(stage);
    const auto any = numerics.intra_op_threads.find("*");
    threads_before_ = at::get_num_threads();
    if (own != numerics.intra_op_threads.end())
      at::set_num_threads(static_cast<int>(own->second));
    else if (any != numerics.intra_op_threads.end())
      at::set_num_threads(static_cast<int>(any->second));
  }
  at::autocast::increment_nesting();
  const bool is_fp16 = numerics.precision == Precision::fp16;
  at::autocast::set_autocast_dtype(device_, is_fp16 ? at::kHalf : at::kBFloat16);
  at::autocast::set_autocast_enabled(device_, is_fp16 || numerics.precision == Precision::bf16);
}

StageScope::~StageScope() {
  if (threads_before_ > 0) at::set_num_threads(threads_before_);
  at::autocast::set_autocast_enabled(device_, autocast_before_);
  at::autocast::set_autocast_dtype(device_, autocast_type_before_);
  if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
}

}  // namespace slipstream
