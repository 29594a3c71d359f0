#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "slipstream/core/array.h"

namespace slipstream {

enum class Compression : std::uint8_t { none, zstd, lz4 };

/// Undoes zstd and lz4 (frame format), keeping its memory from call to call. Not for several
/// threads at once.
class Decompressor {
 public:
  Decompressor();
  ~Decompressor();

  /// One or more whole frames. Throws Error for damaged, truncated or empty data and where more
  /// than `limit` bytes come out. The bytes are counted before `out` is made that large: until then
  /// 8 MiB and the codec's own window of at most 128 MiB are taken. What is larger than 8 MiB is
  /// decompressed twice.
  void run(Compression compression, std::span<const std::byte> from, std::size_t limit,
           HostArray& out);

  HostArray packed;  ///< for the caller's use

 private:
  class Codecs;

  /// Writes to the beginning of `to` again where its end is reached; returns how many bytes came.
  std::size_t pass(Compression compression, std::span<const std::byte> from,
                   std::span<std::byte> to, std::size_t limit);

  std::unique_ptr<Codecs> codecs_;
  std::vector<std::byte> part_;
};

}  // namespace slipstream
