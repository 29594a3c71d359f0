#pragma once

#include <cstddef>
#include <cstdint>
#include <memory_resource>
#include <optional>
#include <string>

#include "slipstream/core/cpu.h"
#include "slipstream/core/wire.h"

namespace slipstream {

/// Reading ahead, for storage where each read waits, such as a network. Threads that do nothing
/// else read raw samples before the workers need them, in the order in which they are used.
/// Samples, bits and errors stay the same.
struct ReadAhead {
  /// Calls of Dataset::read() in flight at once, at most 1024. Each has a thread. Up to twice as
  /// many raw samples are held in memory, beyond the batches that are filled ahead. A sample that
  /// stands in for a bad one is read by its worker, and so are the items of a HostCut. 0: each
  /// worker reads its own samples.
  unsigned reads = 0;
  /// The largest request for file bytes that a thread of the loader makes of the operating system,
  /// at least 4096. It holds for read_file() and the data sets of the library, whatever `reads` is,
  /// but not for the items of a HostCut. The requests for one file follow each other. 0: one
  /// request for all bytes.
  std::size_t chunk_bytes = 0;
  bool operator==(const ReadAhead&) const = default;
};

/// A cache that keeps samples in memory as one host step leaves them. Later epochs begin after that
/// step and have the same samples and bits, sooner. The first samples that come fill the cache.
/// Once a sample does not fit, nothing is added. No sample is replaced by another: an epoch takes
/// every sample once, so the sample used longest ago is the next one needed, and a small cache that
/// replaced it would never be hit.
struct CacheOptions {
  /// The step after which samples are kept: "read" (the bytes of files), "decode" (whole images,
  /// even where the first transform reads a part) or a transform's name. No transform up to there
  /// may be random.
  std::string after = "read";
  /// The memory that the cache takes at most, all included. When the loader is constructed the
  /// cache takes an index of 8 bytes for each sample of the data set: 800 MB for 10^8 samples. With
  /// it a sample is found without a lock or a search. As samples come the cache takes blocks of up
  /// to 64 MiB, in which each field has 64 bytes besides its values. The limit must hold the index.
  /// Leave memory for the rest of the machine: where it is overcommitted, the operating system ends
  /// the process instead of refusing memory.
  std::size_t bytes = 0;
  /// Where the memory comes from; nullptr: the default resource. When it throws because it has no
  /// more, nothing is added to the cache, and the loader goes on.
  std::pmr::memory_resource* memory = nullptr;
  bool operator==(const CacheOptions&) const = default;
};

/// What a cache holds and how often it was used.
struct CacheCounters {
  std::uint64_t samples = 0;  ///< samples in the cache
  std::uint64_t bytes = 0;    ///< memory taken, of CacheOptions::bytes
  std::uint64_t hits = 0;     ///< how often a sample was taken from the cache
  std::uint64_t misses = 0;   ///< how often a sample was not in the cache
  bool is_filling = false;    ///< false: full, out of memory, or no cache

  /// Adds hits and misses of another part of the run. The cache's content stays as it is.
  void add(const CacheCounters& other) {
    hits += other.hits;
    misses += other.misses;
  }
  /// Takes the hits and misses of `earlier` away, a reading of the same counters, so that those
  /// after it are left.
  void subtract(const CacheCounters& earlier) {
    hits -= earlier.hits;
    misses -= earlier.misses;
  }
};

/// How a loader works. Only `wire` can change the bits of a result, by a form that is not
/// is_exact().
struct LoadingOptions {
  unsigned num_workers = 1;  ///< threads, at least 1
  /// Batches that all workers together fill ahead, at least 1. PyTorch's prefetch_factor counts the
  /// batches of one worker.
  std::size_t prefetch_batches = 4;
  WireFormats wire = {};  ///< the forms in which fields travel to the device; others travel plain
  ReadAhead read_ahead = {};
  /// The CPUs on which all threads of the loader may run; empty: those of the caller. The slabs are
  /// first written from there, so that new memory is placed in the NUMA node of these CPUs.
  CpuList cpus = {};
  /// The cache in memory; no value: none. It belongs to one loader and begins empty. It is not used
  /// together with a HostCut, whose items replace the same steps.
  std::optional<CacheOptions> cache = std::nullopt;
  bool operator==(const LoadingOptions&) const = default;
};

}  // namespace slipstream
