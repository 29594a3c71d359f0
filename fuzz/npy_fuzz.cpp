#include <cstdlib>

#include "datasets/npy_header.h"
#include "slipstream/core/error.h"

/// A header is refused, or says where in the file values begin and how many bytes they have.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace slipstream;
  try {
    const NpyHeader header = parse_npy_header({reinterpret_cast<const std::byte*>(data), size});
    if (header.data_at > size) std::abort();
    const NpyForm form = npy_form(header);
    if (form.shape.elements() > (std::size_t{1} << 62)) std::abort();
  } catch (const Error&) {
    return 0;
  }
  return 0;
}
