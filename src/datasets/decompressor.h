#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "slipstream/core/array.h"

namespace slipstream {

enum class Compression : std::uint8_t { none, zstd, lz4 };

/// Decompresses zstd and lz4 (frame format) and reuses its memory from call to call. Not
/// thread-safe.
class Decompressor {
 public:
  Decompressor();
  ~Decompressor();

  /// Decompresses one or more complete frames. Throws Error for damaged, truncated or empty data
  /// and if the output has more than `limit` bytes. The bytes are counted before `out` is
  /// allocated, with only 8 MiB and the codec's own window of at most 128 MiB. Data larger than 8
  /// MiB is decompressed twice.
  void run(Compression compression, std::span<const std::byte> from, std::size_t limit,
           HostArray& out);

  HostArray packed;  ///< buffer for the caller's compressed data

 private:
  class Codecs;

  /// Decompresses into `to` and starts again at its beginning when its end is reached. Returns the
  /// total number of bytes.
  std::size_t pass(Compression compression, std::span<const std::byte> from,
                   std::span<std::byte> to, std::size_t limit);

  std::unique_ptr<Codecs> codecs_;
  std::vector<std::byte> part_;
};

}  // namespace slipstream
