#include "codecs/codec.h"

// Compiled in place of tiff.cpp if CMake does not find libtiff 4.5 or newer.
namespace slipstream {

const Codec* tiff_codec() { return nullptr; }

}  // namespace slipstream
