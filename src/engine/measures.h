#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <optional>

#include "slipstream/engine/trainer.h"

namespace slipstream {

/// Returns the number of steps at the beginning of a run that do not count for its rate.
std::uint64_t warm_up_steps(std::uint64_t steps);

/// Returns the steps per second of a run with this cut. The warm-up is not counted. Later steps
/// that used prefetched batches are not counted either, if there are many of them and enough other
/// steps remain. If such steps are counted, each is assumed to take as long as the loader needed
/// for a batch, and the interval reaches down to the rate that they may hide.
Measured step_rate(const RunResult& result, const std::optional<Cut>& cut, std::size_t batch_size);

/// Returns the bytes that PyTorch's allocator has reserved on a GPU; 0 on a CPU.
std::size_t reserved_bytes(c10::Device device);
/// Returns the largest number of bytes in use at once since reset_peak(): by PyTorch's allocator on
/// a GPU, by the process on a CPU.
std::size_t peak_bytes(c10::Device device);
void reset_peak(c10::Device device);

}  // namespace slipstream
