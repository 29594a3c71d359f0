#pragma once

#include <lz4frame.h>
#include <zstd.h>

#include <string>

namespace slipstream {

inline std::string zstd_compressed(const std::string& text) {
  std::string out(ZSTD_compressBound(text.size()), '\0');
  out.resize(ZSTD_compress(out.data(), out.size(), text.data(), text.size(), 3));
  return out;
}

inline std::string lz4_compressed(const std::string& text) {
  std::string out(LZ4F_compressFrameBound(text.size(), nullptr), '\0');
  out.resize(LZ4F_compressFrame(out.data(), out.size(), text.data(), text.size(), nullptr));
  return out;
}

}  // namespace slipstream
