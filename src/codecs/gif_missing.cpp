#include "codecs/codec.h"

// Compiled in place of gif.cpp if CMake does not find giflib.
namespace slipstream {

const Codec* gif_codec() { return nullptr; }

}  // namespace slipstream
