#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "slipstream/array.h"

namespace slipstream {

enum class Compression : std::uint8_t { none, zstd, lz4 };

/// Undoes zstd and lz4 (frame format), keeping its memory from call to call. Not for several
/// threads at once.
class Decompressor {
 public:
  Decompressor();
  ~Decompressor();

  /// One or more whole frames. Throws Error for damaged, truncated or empty data and where more
  /// than `limit` bytes come out: no more memory than that, and the codec's own window of at most
  /// 128 MiB, is taken.
  void run(Compression compression, std::span<const std::byte> from, std::size_t limit,
           HostArray& out);

  HostArray packed;  ///< for the caller's use

 private:
  class Codecs;
  std::unique_ptr<Codecs> codecs_;
  std::vector<std::byte> unpacked_;
};

}  // namespace slipstream
