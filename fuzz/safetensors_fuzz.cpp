#include <cstdlib>

#include "core/safetensors.h"
#include "slipstream/core/error.h"

/// A header is refused, or its tensors fill the values that are there one after the other.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace slipstream;
  if (size == 0) return 0;
  const std::uint64_t value_bytes = data[0];
  try {
    const StoredTensors header =
        parse_safetensors_header({reinterpret_cast<const char*>(data) + 1, size - 1}, value_bytes);
    std::uint64_t end = 0;
    for (const StoredTensor& tensor : header.tensors) {
      if (tensor.offset != end || header.find(tensor.name) == nullptr) std::abort();
      end += tensor.bytes;
    }
    if (end != value_bytes) std::abort();
  } catch (const Error&) {
    return 0;
  }
  return 0;
}
