#include "codecs/codec.h"

// Compiled in place of webp.cpp if CMake does not find libwebp.
namespace slipstream {

const Codec* webp_codec() { return nullptr; }

}  // namespace slipstream
