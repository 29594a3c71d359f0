#include <algorithm>
#include <cstdint>
#include <cstdlib>

#include "slipstream/codecs/image.h"
#include "slipstream/core/error.h"

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
  const auto held = decode_rgb_window(file, kSmall, {middle}, part);
  if (!held) return;
  const std::int64_t top = middle.top - held->region.top;
  const std::int64_t left = middle.left - held->region.left;
  for (std::int64_t y = 0; y < middle.height; ++y) {
    const std::byte* want = whole.data + 3 * ((middle.top + y) * whole.shape[1] + middle.left);
    const std::byte* have = part.view().data + 3 * ((top + y) * held->region.width + left);
    if (!std::equal(want, want + 3 * middle.width, have)) std::abort();
  }
  for (const std::int64_t reduction : {2, 4, 8}) {
    if (!decode_rgb_window(file, kSmall, {middle, reduction}, part)) std::abort();
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
