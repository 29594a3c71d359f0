#include "datasets/decompressor.h"

#include <lz4frame.h>
#include <zstd.h>

#include <algorithm>
#include <new>
#include <string>

#include "slipstream/core/error.h"

namespace slipstream {
namespace {

struct Step {
  std::size_t consumed = 0;
  std::size_t produced = 0;
  bool is_frame_done = false;
};

[[noreturn]] void fail(const char* codec, const std::string& what) {
  throw Error(std::string(codec) + " data is damaged: " + what + "; replace or remove it");
}

}  // namespace

class Decompressor::Codecs {
 public:
  Codecs() : zstd_(ZSTD_createDCtx()) {
    if (zstd_ == nullptr || LZ4F_isError(LZ4F_createDecompressionContext(&lz4_, LZ4F_VERSION))) {
      ZSTD_freeDCtx(zstd_);
      throw std::bad_alloc();
    }
  }
  ~Codecs() {
    ZSTD_freeDCtx(zstd_);
    LZ4F_freeDecompressionContext(lz4_);
  }
  Codecs(const Codecs&) = delete;
  Codecs& operator=(const Codecs&) = delete;

  void reset() {
    ZSTD_DCtx_reset(zstd_, ZSTD_reset_session_only);
    LZ4F_resetDecompressionContext(lz4_);
  }

  Step step(Compression compression, std::span<const std::byte> in, std::span<std::byte> out) {
    return compression == Compression::zstd ? zstd_step(in, out) : lz4_step(in, out);
  }

 private:
  Step zstd_step(std::span<const std::byte> in, std::span<std::byte> out) {
    ZSTD_inBuffer from{in.data(), in.size(), 0};
    ZSTD_outBuffer to{out.data(), out.size(), 0};
    const std::size_t left = ZSTD_decompressStream(zstd_, &to, &from);
    if (ZSTD_isError(left)) fail("zstd", ZSTD_getErrorName(left));
    return {from.pos, to.pos, left == 0};
  }

  Step lz4_step(std::span<const std::byte> in, std::span<std::byte> out) {
    std::size_t consumed = in.size();
    std::size_t produced = out.size();
    const std::size_t left =
        LZ4F_decompress(lz4_, out.data(), &produced, in.data(), &consumed, nullptr);
    if (LZ4F_isError(left)) fail("lz4", LZ4F_getErrorName(left));
    return {consumed, produced, left == 0};
  }

  ZSTD_DCtx* zstd_ = nullptr;
  LZ4F_dctx* lz4_ = nullptr;
};

Decompressor::Decompressor() : codecs_(std::make_unique<Codecs>()) {}
Decompressor::~Decompressor() = default;

void Decompressor::run(Compression compression, std::span<const std::byte> from, std::size_t limit,
                       HostArray& out) {
  constexpr std::size_t kPartBytes = std::size_t{8} << 20;
  part_.resize(kPartBytes);
  // A small file can decompress to a huge one, and a size in its header can be wrong. So the bytes
  // are counted first, in a buffer of fixed size that is overwritten in a circle.
  const std::size_t bytes = pass(compression, from, part_, limit);
  const MutableArray to = out.reset(DType::uint8, {static_cast<std::int64_t>(bytes)});
  if (bytes <= part_.size())
    std::copy_n(part_.begin(), bytes, to.data);
  else
    pass(compression, from, {to.data, bytes}, limit);
}

std::size_t Decompressor::pass(Compression compression, std::span<const std::byte> from,
                               std::span<std::byte> to, std::size_t limit) {
  const char* const codec = compression == Compression::zstd ? "zstd" : "lz4";
  if (from.empty()) fail(codec, "it is empty");
  codecs_->reset();
  std::size_t used = 0;
  std::size_t made = 0;
  for (bool is_done = false; !is_done;) {
    const std::size_t at = made % to.size();
    const Step step = codecs_->step(compression, from.subspan(used), to.subspan(at));
    used += step.consumed;
    made += step.produced;
    if (made > limit)
      throw Error("it is more than " + std::to_string(limit) +
                  " bytes when decompressed; remove it, or store it in smaller members (a program "
                  "may raise TarShardOptions::max_member_bytes)");
    // Data may consist of several frames.
    is_done = step.is_frame_done && used == from.size();
    if (!is_done && step.consumed + step.produced == 0) fail(codec, "it ends early");
  }
  return made;
}

}  // namespace slipstream
