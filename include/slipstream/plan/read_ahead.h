#pragma once

#include <cstddef>

namespace slipstream {

/// For storage where each read waits, such as a network: threads that do nothing else read the raw
/// samples ahead of the workers, in the running order. Samples, bits and errors stay the same.
struct ReadAhead {
  /// Dataset::read() calls in flight at once, at most 1024: so many threads. Up to twice as many
  /// raw samples are held, and read further than the slabs go. A sample that stands in for a bad
  /// one is read by its worker, and a cut's items are too. 0: each worker reads for itself.
  unsigned reads = 0;
  /// The largest request for file bytes that a loader's thread makes of the operating system, at
  /// least 4096, by read_file() and the data sets of the library; the requests for one file follow
  /// each other. With reads or without, but not for a cut's items. 0: all that is missing at once.
  std::size_t chunk_bytes = 0;
  bool operator==(const ReadAhead&) const = default;
};

}  // namespace slipstream
