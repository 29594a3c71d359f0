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

/// Returns a frame of `part` repeated `times` times, whose header does not state the size of the
/// text.
inline std::string zstd_streamed(const std::string& part, int times) {
  std::string out(ZSTD_compressBound(part.size()) * static_cast<std::size_t>(times) + 64, '\0');
  ZSTD_outBuffer to{out.data(), out.size(), 0};
  ZSTD_CCtx* const context = ZSTD_createCCtx();
  for (int i = 0; i < times; ++i) {
    ZSTD_inBuffer from{part.data(), part.size(), 0};
    ZSTD_compressStream2(context, &to, &from, i + 1 < times ? ZSTD_e_flush : ZSTD_e_end);
  }
  ZSTD_freeCCtx(context);
  out.resize(to.pos);
  return out;
}

inline std::string lz4_compressed(const std::string& text) {
  std::string out(LZ4F_compressFrameBound(text.size(), nullptr), '\0');
  out.resize(LZ4F_compressFrame(out.data(), out.size(), text.data(), text.size(), nullptr));
  return out;
}

}  // namespace slipstream
