#pragma once

#include <span>

namespace slipstream::augment {

/// A header that kernels which are compiled while the program runs include.
struct DeviceHeader {
  const char* name;
  const char* text;
};

std::span<const DeviceHeader> device_headers();

}  // namespace slipstream::augment
