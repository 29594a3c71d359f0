#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <optional>

#include "slipstream/engine/trainer.h"

namespace slipstream {

/// Steps at the beginning of a run that do not count for its rate.
std::uint64_t warm_up_steps(std::uint64_t steps);

/// Steps per second of a run with this cut, without the warm-up, and without the steps behind it
/// that batches filled ahead fed, where they are many and others are left. Where such steps count,
/// they count for as long as the loader took, and the interval reaches down to what they may hide.
Measured step_rate(const RunResult& result, const std::optional<Cut>& cut, std::size_t batch_size);

/// Bytes that PyTorch's allocator holds on a GPU; 0 on a CPU.
std::size_t reserved_bytes(c10::Device device);
/// Most bytes in use at once since reset_peak: of PyTorch's allocator, or the process on a CPU.
std::size_t peak_bytes(c10::Device device);
void reset_peak(c10::Device device);

}  // namespace slipstream
