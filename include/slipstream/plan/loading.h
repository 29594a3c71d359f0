#pragma once

#include <cstddef>
#include <cstdint>
#include <memory_resource>
#include <string>

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

/// Samples kept in memory as one host step leaves them, so that later epochs begin behind it: the
/// same samples and bits, sooner. Filled by the first samples that come. Nothing is thrown out
/// for others: an epoch takes every sample once, so the one used longest ago is the next to be
/// needed, and a cache that is too small and replaced it would never be hit. Once a sample does not
/// fit any more, nothing is added.
struct CacheOptions {
  /// "read" (what the data set stores: file bytes), "decode" (whole images, even where the first
  /// transform reads a part) or a transform's name. No transform up to there may be random.
  std::string after = "read";
  /// Never exceeded: all memory counts. Taken at construction: an index of 8 bytes a sample of the
  /// data set (800 MB for 10^8 samples; in return, finding one takes neither a lock nor a search).
  /// Then, as samples come: blocks of up to 64 MiB, in which each field has 64 bytes besides its
  /// values. Must be at least the index. Leave room for the rest of the machine: where memory is
  /// overcommitted, the system ends the process rather than refuse it.
  std::size_t bytes = 0;
  /// Where the memory comes from; nullptr: the default resource. When it has no more (throws),
  /// nothing is added to the cache, and the loader goes on.
  std::pmr::memory_resource* memory = nullptr;
  bool operator==(const CacheOptions&) const = default;
};

struct CacheCounters {
  std::uint64_t samples = 0;  ///< that are cached
  std::uint64_t bytes = 0;    ///< taken of CacheOptions::bytes
  std::uint64_t hits = 0;     ///< how often a sample was taken from the cache
  std::uint64_t misses = 0;   ///< and how often it was not there
  bool is_filling = false;    ///< false: full, out of memory, or no cache

  /// Adds what another part of the run took; what is cached stays.
  void add(const CacheCounters& other) {
    hits += other.hits;
    misses += other.misses;
  }
  /// Leaves what was taken after `earlier`.
  void subtract(const CacheCounters& earlier) {
    hits -= earlier.hits;
    misses -= earlier.misses;
  }
};

}  // namespace slipstream
