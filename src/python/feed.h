#pragma once

#include <torch/csrc/utils/pybind.h>

#include "slipstream/core/lane.h"

namespace slipstream {

/// Where the batches of a loop come from. Called by the loop's thread, without Python's lock.
class Feed {
 public:
  virtual ~Feed() = default;
  /// Whether take() would return without waiting.
  virtual bool ready() = 0;
  /// Waits for the next batch. False where there is none. Throws what the source threw.
  virtual bool take() = 0;
  /// The batch that was taken, on the device, enqueued on `lane`, whose stream is the current one.
  virtual pybind11::object moved(Lane& lane) = 0;
  /// Whether the batch that was taken has memory of the device already, in use on the caller's
  /// stream.
  virtual bool is_on_device() const { return false; }
};

}  // namespace slipstream
