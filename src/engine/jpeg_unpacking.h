#pragma once

#include <memory>

#include "engine/bound_pipeline.h"
#include "engine/device_memory.h"
#include "engine/jpeg_unpacker.h"
#include "slipstream/engine/result.h"

namespace slipstream {

/// What makes images of files on the device, kept from run to run. It outlives the loaders whose
/// batches it reads.
class JpegUnpacking {
 public:
  /// `bound` must outlive this.
  explicit JpegUnpacking(const BoundPipeline& bound) : bound_(bound) {}

  /// nullptr where no images travel so. What an earlier call gave for other wire formats is no
  /// longer valid. Throws Refused where nvJPEG is not installed.
  JpegUnpacker* unpacker_for(const Plan& plan);
  /// Whether the unpacker that is there is that of `plan`.
  bool has_unpacker_for(const Plan& plan) const;
  /// Of all runs with the unpacker that is there; zeros where there is none.
  JpegResult so_far() const;

 private:
  const BoundPipeline& bound_;
  DeviceMemory memory_;
  WireFormats wire_;  ///< what unpacker_ was made for
  std::unique_ptr<JpegUnpacker> unpacker_;
};

}  // namespace slipstream
