#pragma once

#include <cstdint>
#include <memory>
#include <memory_resource>
#include <optional>
#include <string>
#include <vector>

#include "slipstream/codecs/image.h"
#include "slipstream/core/cpu.h"
#include "slipstream/core/lane.h"
#include "slipstream/core/step_counter.h"
#include "slipstream/core/wire.h"
#include "slipstream/datasets/dataset.h"
#include "slipstream/datasets/skipped_samples.h"
#include "slipstream/loader/sampling.h"
#include "slipstream/ops/batch_ops.h"
#include "slipstream/ops/op.h"
#include "slipstream/plan/loading.h"

namespace slipstream {

class BatchChain;
class DeviceChain;
class TraceRecorder;
struct PackedField;

/// Where one field of a batch lies: in its slab, batch_size samples one after the other; and in the
/// device's block, where stages find it.
struct SlabField {
  FieldSpec spec;  ///< of one sample, as the last transform on the host leaves it; or its canvas
  Wire wire = Wire::plain;
  DType dtype = DType::u8;              ///< as stages see it: labels of up to 256 classes as u8
  std::size_t offset_bytes = 0;         ///< in the slab, a multiple of 256
  std::size_t sample_bytes = 0;         ///< in the slab
  std::size_t device_offset_bytes = 0;  ///< in the block, a multiple of 256; not of Wire::host
};

/// All fields of a batch in one block of memory: one copy a batch. The slab's first `copied_bytes`
/// go to the start of the device's block; what travels packed or as JPEG files is expanded there,
/// behind them. The layout depends on the fields, their wire formats and the batch size alone:
/// fields that travel plain come first, then packed ones, then those that stay on the host or are
/// JPEG files (jpeg_slot.h), which the device's decoder takes from the slab.
struct SlabLayout {
  std::vector<SlabField> fields;
  std::size_t batch_size = 0;
  std::size_t bytes = 0;         ///< of a slab
  std::size_t copied_bytes = 0;  ///< of it that travel
  std::size_t device_bytes = 0;  ///< of the block
  /// What is expanded on the device, nullptr if nothing.
  std::shared_ptr<const std::vector<PackedField>> packed = nullptr;
  /// What the device does to the fields, nullptr if nothing. Its parameters are then a field behind
  /// those of the samples, kDrawnField.
  std::shared_ptr<const DeviceChain> device_chain = nullptr;
  /// What it then does to the whole batch, nullptr if nothing. Its parameters, where it mixes, are
  /// the last of `fields`, kMixField.
  std::shared_ptr<const BatchChain> batch_chain = nullptr;

  /// Throws Error naming the known fields.
  const SlabField& field(const std::string& name) const;
};

/// The field that holds DeviceChain::drawn_bytes() bytes a sample.
inline constexpr const char* kDrawnField = "augment.parameters";
/// The field that holds a DrawnMix a sample.
inline constexpr const char* kMixField = "mix.parameters";

/// Cached items stand in for everything up to a step: the first K of the run's order, made when the
/// loader is constructed (counters() knows nothing of that) and taken in turn. Samples keep their
/// ids, so later random steps still draw anew each epoch.
struct HostCut {
  std::string after;      ///< "read", "decode", a transform's name, or "collate"
  std::size_t items = 0;  ///< K: samples, or batches after "collate"
  bool operator==(const HostCut&) const = default;
};

inline constexpr std::size_t kJpegBytes = 256 << 10;

struct DataLoaderOptions {
  std::size_t batch_size = 1;
  std::uint64_t seed = 1;
  bool shuffle = true;
  Sampling sampler = {};  ///< how often each sample comes in an epoch; once
  Rank rank = {};         ///< whose part of every step; batch_size is that of one rank
  /// Leaves out the last samples of an epoch's order, too few for a batch of every rank. Without,
  /// the batches are filled up from the beginning of that epoch's order, as PyTorch's
  /// DistributedSampler does: those samples are taken a second time (another occurrence, so they
  /// are drawn anew). Every batch has batch_size samples either way.
  bool drop_last = true;
  unsigned num_workers = 1;  ///< threads, at least 1
  /// Batches that are filled ahead by all workers together, at least 1. PyTorch's prefetch_factor
  /// is that of one worker.
  std::size_t prefetch_batches = 2;
  std::size_t held_batches = 2;   ///< that the caller holds at once (next() without release())
  std::uint64_t first_batch = 0;  ///< batches are numbered through all epochs
  std::optional<HostCut> cut = std::nullopt;
  /// Not used with a cut, whose items stand in already. Belongs to this loader: a new one begins
  /// with an empty cache.
  std::optional<CacheOptions> cache = std::nullopt;
  DecodeOptions decode = {};
  OnBadSample on_bad_sample = OnBadSample::stop;
  WireFormats wire = {};
  /// So many of the last transforms are done to the batch on the device: the loader draws their
  /// parameters alone, as SlabLayout::device_chain says. At most all.
  std::size_t on_device = 0;
  /// What the device does to the whole batch in the end: the loader draws its parameters alone, as
  /// SlabLayout::batch_chain says.
  BatchOps batch_ops = {};
  /// Of Wire::jpeg: workers decode files that are larger, and every slab has room for files of this
  /// size (or for the finished images, if that is more).
  std::size_t jpeg_bytes = kJpegBytes;
  std::pmr::memory_resource* memory = nullptr;  ///< slabs' memory; nullptr: the default resource
  ReadAhead read_ahead = {};
  /// CPUs that all threads of the loader may run on, each on any of them; empty: where the caller
  /// may. The slabs are written first from there, so that new memory is of these CPUs' NUMA node.
  CpuList cores = {};
  /// Takes every step of every sample, a row a thread, and every slab's filling, a row a slab. Not
  /// where slabs are cached (a cut after "collate"). Shared, for workers fill slabs beyond the run
  /// that is traced. nullptr: nothing is recorded.
  std::shared_ptr<TraceRecorder> trace = nullptr;
  bool operator==(const DataLoaderOptions&) const = default;
};

/// A filled slab, the caller's until release().
struct HostBatch {
  std::uint64_t number = 0;  ///< through all epochs
  std::uint32_t epoch = 0;
  std::size_t slab = 0;  ///< which slab, below DataLoader::slabs()
  const std::byte* data = nullptr;
  /// Batches that lay filled when this one was asked for, itself included; 0: it was waited for.
  std::size_t filled = 0;
  double blocked_s = 0;  ///< by next() until it was there
};

inline constexpr std::size_t kKeptLaps = 1024;

/// Worker threads that read, decode and transform samples and write them straight into slabs, in
/// an order that does not depend on the number of workers. The last batch of an epoch that would
/// not be full is dropped (DataLoaderOptions::drop_last); the next epoch follows without a gap, for
/// ever. Batch k of all ranks is step k's: resume them with the same first_batch.
///
/// Memory: prefetch_batches + held_batches slabs (K after a cut behind "collate"), allocated at
/// construction, plus each worker's buffers, 2 x ReadAhead::reads raw samples and the cache. Slabs
/// start zeroed: the bytes between fields are always 0. One thread takes batches (ready, next,
/// release); counters() and laps() may be called from any. Where images travel as JPEG files, cuts
/// and the cache must be after "read" (or a cut after "collate").
class DataLoader {
 public:
  /// Throws Refused: no transform makes a field's shape fixed ("add resize"), a batch larger than
  /// the data set, or that of all ranks together, labels or weights of another number of samples,
  /// an unknown cut, a cache behind a random transform, a wire format that a field cannot take,
  /// CPUs that the process may not use, a bad option: all problems at once, one a line. With a cut,
  /// what making the cached items threw, for the first of them that failed.
  DataLoader(std::shared_ptr<const Dataset> dataset, std::vector<NamedOp> transforms,
             DataLoaderOptions options);
  /// Stops and joins all threads: at most the calls in flight are waited for.
  ~DataLoader();
  DataLoader(const DataLoader&) = delete;
  DataLoader& operator=(const DataLoader&) = delete;

  const SlabLayout& layout() const;
  std::size_t slabs() const;
  std::uint64_t batches_per_epoch() const;

  /// Whether next() would return (or throw) at once.
  bool ready();
  /// The next batch in order; blocks until it is filled. Throws what went wrong with the first
  /// sample of this batch that failed, naming the step, the sample and its file; every later call
  /// throws the same. REQUIRES: fewer than DataLoaderOptions::held_batches batches are held
  HostBatch next();
  /// Gives the slab back. It is refilled only after `last_use` (recorded; nullptr: at once), for
  /// which a worker waits. `last_use` must live until the loader is gone or next() returns the slab
  /// again. After a cut behind "collate" this does nothing. REQUIRES: `batch` is held
  void release(const HostBatch& batch, const Mark* last_use);

  /// Host steps in order: read, decode, each transform, collate. For samples from the cache, the
  /// steps that it stands in for do not count.
  std::vector<StepCounter> counters() const;
  /// Of the same steps: each worker's last samples, in their order, at most kKeptLaps. A step that
  /// readers do (ReadAhead) has theirs. May be called from any thread; what a worker changes
  /// meanwhile may be of a newer sample.
  std::vector<StepLaps> laps() const;
  /// May be called from any thread.
  CacheCounters cache() const;
  /// Time that next() was blocked, s.
  double blocked_s() const;
  /// Where bad samples are skipped: those met so far. May be called from any thread.
  SkippedSamples skipped() const;

  /// Layout and checks alone, without starting a thread.
  static SlabLayout plan_layout(const Dataset& dataset, const std::vector<NamedOp>& transforms,
                                std::size_t batch_size, const WireFormats& wire = {},
                                std::size_t jpeg_bytes = kJpegBytes, std::size_t on_device = 0,
                                const BatchOps& batch_ops = {});

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace slipstream
