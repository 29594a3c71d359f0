#pragma once

#include <cstddef>
#include <cstdint>
#include <memory_resource>
#include <optional>
#include <string>

#include "slipstream/core/cpu.h"
#include "slipstream/core/wire.h"

namespace slipstream {

/// Reading ahead, for storage with a high latency, such as a network. Additional threads read raw
/// samples before the workers need them, in the order in which they are used. Samples, bits and
/// errors stay the same.
struct ReadAhead {
  /// The number of concurrent calls of Dataset::read(), at most 1024. Each has a thread. Up to
  /// twice this number of raw samples is held in memory, in addition to the prefetched batches. A
  /// sample that replaces a bad one, and the items of a HostCut, are read by a worker. 0: each
  /// worker reads its own samples.
  unsigned reads = 0;
  /// The largest number of bytes that a thread of the loader requests from the operating system at
  /// once, at least 4096. It applies to read_file() and the data sets of the library, whatever
  /// `reads` is, but not to the items of a HostCut. The requests for one file are made one after
  /// the other. 0: one request for all bytes.
  std::size_t chunk_bytes = 0;
  bool operator==(const ReadAhead&) const = default;
};

/// A cache that keeps samples in memory in the state after one host step. Later epochs start after
/// that step and have the same samples and bits, in less time. The first samples that are loaded
/// fill the cache. As soon as a sample does not fit, nothing is added any more. No sample is
/// evicted: an epoch takes every sample once, so the least recently used sample is the next one
/// needed, and a small cache that evicted it would never be hit.
struct CacheOptions {
  /// The step after which samples are kept: "read" (the bytes of files), "decode" (whole images,
  /// even if the first transform reads only a part) or a transform's name. No transform up to that
  /// step may be random.
  std::string after = "read";
  /// The largest number of bytes that the cache may use, including everything. When the loader is
  /// constructed, the cache allocates an index of 8 bytes for each sample of the data set (800 MB
  /// for 10^8 samples), with which a sample is found without a lock or a search. The limit must be
  /// large enough for the index. For the samples, the cache allocates blocks of up to 64 MiB, in
  /// which each field takes 64 bytes in addition to its values. Leave memory for the rest of the
  /// machine: if memory is overcommitted, the operating system kills the process instead of
  /// refusing an allocation.
  std::size_t bytes = 0;
  /// The memory resource; nullptr: the default resource. If it throws because it has no more
  /// memory, nothing is added to the cache any more, and the loader continues.
  std::pmr::memory_resource* memory = nullptr;
  bool operator==(const CacheOptions&) const = default;
};

/// What a cache holds and how often it was used.
struct CacheCounters {
  std::uint64_t samples = 0;  ///< samples in the cache
  std::uint64_t bytes = 0;    ///< memory in use, at most CacheOptions::bytes
  std::uint64_t hits = 0;     ///< number of samples taken from the cache
  std::uint64_t misses = 0;   ///< number of samples that were not in the cache
  bool is_filling = false;    ///< false if the cache is full, out of memory, or does not exist

  /// Adds the hits and misses of another part of the run. The size of the cache does not change.
  void add(const CacheCounters& other) {
    hits += other.hits;
    misses += other.misses;
  }
  /// Subtracts the hits and misses of `earlier`, an earlier reading of the same counters.
  void subtract(const CacheCounters& earlier) {
    hits -= earlier.hits;
    misses -= earlier.misses;
  }
};

/// How a loader works. Only `wire` can change the bits of a result, by a wire format for which
/// is_exact() is false.
struct LoadingOptions {
  unsigned num_workers = 1;  ///< worker threads, at least 1
  /// The number of batches that all workers together prefetch, at least 1. PyTorch's
  /// prefetch_factor is the number for each worker.
  std::size_t prefetch_batches = 4;
  WireFormats wire = {};  ///< wire formats by field; other fields travel plain
  ReadAhead read_ahead = {};
  /// The CPUs on which all threads of the loader may run; empty: those of the calling thread. The
  /// slabs are first written by these threads, so that the operating system places new memory in
  /// the NUMA node of these CPUs.
  CpuList cpus = {};
  /// The cache in memory; no value: none. It belongs to one loader and is initially empty. It is
  /// not used together with a HostCut, whose items replace the same steps.
  std::optional<CacheOptions> cache = std::nullopt;
  bool operator==(const LoadingOptions&) const = default;
};

}  // namespace slipstream
