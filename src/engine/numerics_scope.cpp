#include "engine/numerics_scope.h"

#include <ATen/Parallel.h>
#include <ATen/autocast_mode.h>
#include <c10/util/Exception.h>

#include <optional>
#include <utility>

#include "engine/operation_threads.h"

namespace slipstream {
namespace {

using at::Float32Backend;
using at::Float32MatmulPrecision;
using at::Float32Op;
using at::Float32Precision;

/// The settings of float32 precision in PyTorch's newer interface. The older interface sets them as
/// well.
constexpr std::array<std::pair<Float32Backend, Float32Op>, 4> kPlaces = {{
    {Float32Backend::CUDA, Float32Op::CONV},
    {Float32Backend::CUDA, Float32Op::RNN},
    {Float32Backend::CUDA, Float32Op::MATMUL},
    {Float32Backend::MKLDNN, Float32Op::MATMUL},
}};

Float32Precision top_precision() {
  return at::globalContext().float32Precision(Float32Backend::GENERIC, Float32Op::ALL);
}

/// Returns the effective precision of `op` while all levels above it are set to `precision`.
Float32Precision effective_under(Float32Precision precision, Float32Backend backend, Float32Op op) {
  auto& torch = at::globalContext();
  const Float32Precision top = top_precision();
  torch.setFloat32Precision(Float32Backend::GENERIC, Float32Op::ALL, precision);
  const Float32Precision effective = torch.float32Precision(backend, op);
  torch.setFloat32Precision(Float32Backend::GENERIC, Float32Op::ALL, top);
  return effective;
}

/// Returns the precision that is set for all operations of `backend`; NONE if it is inherited from
/// the top. PyTorch only returns the effective value. Two different values are therefore set at the
/// top: if the effective value follows them, it is inherited.
Float32Precision backend_precision(Float32Backend backend) {
  const Float32Precision one = effective_under(Float32Precision::TF32, backend, Float32Op::ALL);
  const Float32Precision other = effective_under(Float32Precision::IEEE, backend, Float32Op::ALL);
  return one == other ? one : Float32Precision::NONE;
}

/// Returns the precision that is set for `op` itself; NONE if it is inherited from a higher level.
/// Returns nullopt if it was never set and has a default that only holds while no higher level is
/// set. PyTorch 2.15 has such defaults; no function sets them again.
std::optional<Float32Precision> own_precision(Float32Backend backend, Float32Op op) {
  auto& torch = at::globalContext();
  const Float32Precision all = backend_precision(backend);
  torch.setFloat32Precision(backend, Float32Op::ALL, Float32Precision::NONE);
  const Float32Precision one = effective_under(Float32Precision::TF32, backend, op);
  const Float32Precision other = effective_under(Float32Precision::IEEE, backend, op);
  const Float32Precision alone = effective_under(Float32Precision::NONE, backend, op);
  torch.setFloat32Precision(backend, Float32Op::ALL, all);
  if (one == other) return one;
  if (alone == Float32Precision::NONE) return alone;
  return std::nullopt;
}

bool is_convolution_or_rnn(Float32Op op) { return op == Float32Op::CONV || op == Float32Op::RNN; }

const char* to_string(Float32MatmulPrecision precision) {
  if (precision == Float32MatmulPrecision::HIGHEST) return "highest";
  return precision == Float32MatmulPrecision::HIGH ? "high" : "medium";
}

}  // namespace

NumericsScope::NumericsScope(const Plan::Numerics& numerics) {
  auto& torch = at::globalContext();
  keep_precisions();
  benchmark_ = torch.benchmarkCuDNN();
  deterministic_cudnn_ = torch.deterministicCuDNN();
  deterministic_ = torch.deterministicAlgorithms();
  warn_only_ = torch.deterministicAlgorithmsWarnOnly();
  fill_ = torch.deterministicFillUninitializedMemory();
  const bool is_tf32 = numerics.precision == Precision::tf32;
  const Float32Precision convolution = is_tf32 ? Float32Precision::TF32 : Float32Precision::IEEE;
  torch.setFloat32MatmulPrecision("highest");
  if (allows_tf32_cudnn_) torch.setAllowTF32CuDNN(is_tf32);
  torch.setFloat32Precision(Float32Backend::CUDA, Float32Op::ALL, convolution);
  for (std::size_t i = 0; i < kPlaces.size(); ++i)
    if (precisions_[i])  // all others follow the level above
      torch.setFloat32Precision(
          kPlaces[i].first, kPlaces[i].second,
          is_convolution_or_rnn(kPlaces[i].second) ? convolution : Float32Precision::IEEE);
  torch.setBenchmarkCuDNN(numerics.cudnn_benchmark);
  torch.setDeterministicCuDNN(numerics.deterministic);
  torch.setDeterministicAlgorithms(numerics.deterministic, false);
  // Filling new memory would hide a missing wait between lanes, or change its effect.
  torch.setDeterministicFillUninitializedMemory(false);
}

NumericsScope::~NumericsScope() {
  auto& torch = at::globalContext();
  restore_precisions();
  torch.setBenchmarkCuDNN(benchmark_);
  torch.setDeterministicCuDNN(deterministic_cudnn_);
  torch.setDeterministicAlgorithms(deterministic_, warn_only_);
  torch.setDeterministicFillUninitializedMemory(fill_);
}

/// Saves the current precisions. The older interface can only be read while the newer one has the
/// same values, so all values of the newer one are saved and made equal first. The older setting of
/// cuDNN is not touched if a newer one has a default that cannot be set again: it would be set,
/// too.
void NumericsScope::keep_precisions() {
  auto& torch = at::globalContext();
  cuda_precision_ = backend_precision(Float32Backend::CUDA);
  bool has_default = false;
  for (std::size_t i = 0; i < kPlaces.size(); ++i) {
    precisions_[i] = own_precision(kPlaces[i].first, kPlaces[i].second);
    has_default = has_default || !precisions_[i];
  }
  for (std::size_t i = 0; i < kPlaces.size(); ++i)
    if (precisions_[i])
      torch.setFloat32Precision(kPlaces[i].first, kPlaces[i].second, Float32Precision::IEEE);
  matmul_ = torch.float32MatmulPrecision();
  if (has_default) return;
  try {
    allows_tf32_cudnn_ = torch.allowTF32CuDNN();
  } catch (const c10::Error&) {
    // The newer interface says IEEE now. PyTorch throws only if the older one contradicts it, so it
    // allows TF32.
    allows_tf32_cudnn_ = true;
  }
}

void NumericsScope::restore_precisions() {
  auto& torch = at::globalContext();
  torch.setFloat32MatmulPrecision(to_string(matmul_));
  if (allows_tf32_cudnn_) torch.setAllowTF32CuDNN(*allows_tf32_cudnn_);
  torch.setFloat32Precision(Float32Backend::CUDA, Float32Op::ALL, cuda_precision_);
  for (std::size_t i = 0; i < kPlaces.size(); ++i)
    if (precisions_[i])
      torch.setFloat32Precision(kPlaces[i].first, kPlaces[i].second, *precisions_[i]);
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
      set_operation_threads(static_cast<int>(own->second));
    else if (any != numerics.intra_op_threads.end())
      set_operation_threads(static_cast<int>(any->second));
  }
  // As in torch.autocast, only the outermost scope clears the cache of converted weights. A stage
  // inside the caller's torch.autocast must not clear the caller's cache.
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
