#include <algorithm>
#include <cstdint>
#include <cstdlib>

#include "slipstream/error.h"
#include "slipstream/image.h"

namespace slipstream {
namespace {

constexpr DecodeOptions kSmall = {.pixel_limit = 1 << 20};

bool decodes(void (*decode)(std::span<const std::byte>, const DecodeOptions&, HostArray&),
             std::span<const std::byte> file, HostArray& out) {
  try {
    decode(file, kSmall, out);
  } catch (const Error&) {
    return false;
  }
  return true;
}

/// What decodes has the size that its header says.
void check(std::span<const std::byte> file, const HostArray& out) {
  const Shape header = image_shape(file);
  const Shape shape = out.view().shape;
  if (shape[0] != header[0] || shape[1] != header[1]) std::abort();
}

/// The middle, decoded alone, is the middle of the whole.
void check_part(std::span<const std::byte> file, const HostArray& out) {
  const ConstArray whole = out.view();
  const Region middle = {whole.shape[0] / 3, whole.shape[1] / 3, (whole.shape[0] + 2) / 3,
                         (whole.shape[1] + 2) / 3};
  HostArray part;
  if (!decode_rgb_region(file, kSmall, middle, part)) return;
  const std::int64_t row_bytes = 3 * middle.width;
  for (std::int64_t y = 0; y < middle.height; ++y) {
    const std::byte* want = whole.data + 3 * ((middle.top + y) * whole.shape[1] + middle.left);
    const std::byte* have = part.view().data + y * row_bytes;
    if (!std::equal(have, have + row_bytes, want)) std::abort();
  }
}

}  // namespace
}  // namespace slipstream

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace slipstream;
  const std::span file(reinterpret_cast<const std::byte*>(data), size);
  HostArray out;
  if (decodes(decode_rgb, file, out)) {
    check(file, out);
    check_part(file, out);
  }
  if (decodes(decode_mask, file, out)) check(file, out);
  return 0;
}
