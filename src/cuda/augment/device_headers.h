#pragma once

#include <span>

namespace slipstream::augment {

/// A header, as text, for kernels that are compiled at run time.
struct DeviceHeader {
  const char* name;
  const char* text;
};

std::span<const DeviceHeader> device_headers();

}  // namespace slipstream::augment
