#pragma once

#include <cstdint>
#include <memory>
#include <memory_resource>
#include <optional>
#include <string>
#include <vector>

#include "slipstream/core/lane.h"
#include "slipstream/core/step_counter.h"
#include "slipstream/datasets/dataset.h"
#include "slipstream/loader/loading.h"
#include "slipstream/loader/sample_options.h"
#include "slipstream/transforms/batch_ops.h"
#include "slipstream/transforms/op.h"

namespace slipstream {

class BatchChain;
class BatchQueue;
class DeviceChain;
class SampleCache;
class TraceRecorder;
struct PackedField;

/// The position of one field of a batch. A slab is the block of host memory that holds a batch: for
/// each field, it contains batch_size samples one after the other. The device has a separate block,
/// where stages find the field.
struct SlabField {
  /// Form of one sample of the field after the last transform on the host. If images of different
  /// sizes are cropped or resized on the device, it is the image of fixed size (canvas) in which
  /// they are transferred.
  FieldSpec spec;
  Wire wire = Wire::plain;
  DType dtype = DType::uint8;    ///< dtype for stages: labels of up to 256 classes are uint8
  std::size_t offset_bytes = 0;  ///< offset in the slab, a multiple of 256
  std::size_t sample_bytes = 0;  ///< size of one sample in the slab
  /// Offset in the device's block, a multiple of 256; unused with Wire::host.
  std::size_t device_offset_bytes = 0;
};

/// The layout of all fields of a batch in one block of memory, so that one copy moves a batch. The
/// first `copied_bytes` of the slab are copied to the start of the device's block. Fields that
/// travel packed or as JPEG files are expanded after these bytes. The layout depends only on the
/// fields, their wire formats and the batch size. Plain fields come first, then packed ones, then
/// the fields that stay on the host and the JPEG files, which the device's decoder reads from the
/// slab.
struct SlabLayout {
  std::vector<SlabField> fields;
  std::size_t batch_size = 0;
  std::size_t bytes = 0;         ///< size of a slab
  std::size_t copied_bytes = 0;  ///< bytes of the slab that are copied to the device
  std::size_t device_bytes = 0;  ///< size of the device's block
  /// The packed fields, which are expanded on the device; nullptr: none.
  std::shared_ptr<const std::vector<PackedField>> packed = nullptr;
  /// The transforms that the device applies; nullptr: none. Their random parameters are the field
  /// kDrawnField, after the fields of the samples.
  std::shared_ptr<const DeviceChain> device_chain = nullptr;
  /// The operations that the device then applies to the whole batch; nullptr: none. If they mix
  /// samples, their random parameters are the field kMixField, the last one of `fields`.
  std::shared_ptr<const BatchChain> batch_chain = nullptr;

  /// Returns the field of that name. Throws Error, with the known names, for any other name.
  const SlabField& field(const std::string& name) const;
};

/// Name of the field with the random parameters of SlabLayout::device_chain, for each sample.
inline constexpr const char* kDrawnField = "augment.parameters";
/// Name of the field with the random parameters of SlabLayout::batch_chain, for each sample.
inline constexpr const char* kMixField = "mix.parameters";

/// Replaces all steps up to one step by cached items, so that the remaining steps can be measured.
/// The items are the first ones of the run's order. They are made when the loader is constructed,
/// which counters() does not include, and the loader cycles through them. Samples keep their
/// indices, so random steps after the cut still use new random numbers in each epoch.
struct HostCut {
  std::string after;      ///< "read", "decode", a transform's name, or "collate"
  std::size_t items = 0;  ///< number of samples or, after "collate", of batches
  bool operator==(const HostCut&) const = default;
};

/// All options of a DataLoader.
struct DataLoaderOptions : SampleOptions, LoadingOptions {
  /// Only without drop_last: whether the ranks divide the remaining samples of an epoch's last step
  /// among them. Each rank then has last_share() of the samples, rank 0 the first ones. If they
  /// cannot be divided equally, samples from the beginning of the epoch complete the shares. The
  /// samples after the share in the batch are not part of the step.
  bool shares_last_step = false;
  /// Most batches that the caller holds at once, between next() and release().
  std::size_t held_batches = 2;
  /// First batch to return; batches are numbered through all epochs.
  std::uint64_t first_batch = 0;
  /// Batches that the caller lists while the loader runs; nullptr: the loader computes their order.
  /// With a queue, batches may be smaller than batch_size, and `shuffle`, `sampler`, `rank` and
  /// drop_last are not used. A bad sample is replaced by the next good one of the same batch.
  std::shared_ptr<BatchQueue> batches = nullptr;
  /// Whether listed batches that are smaller than batch_size are filled up with repeated samples.
  /// They always are if the device transforms or unpacks whole slabs.
  bool fills_up = false;
  std::optional<HostCut> cut = std::nullopt;  ///< no value: the loader executes all steps
  /// Only with `cache`: the samples that loaders share, also one after the other. They must have
  /// the same data set, transforms and options of decoding. nullptr: the loader has a separate
  /// cache.
  std::shared_ptr<SampleCache> shared_samples = nullptr;
  /// The number of transforms, counted from the last, that the device applies to the batch. The
  /// loader only generates their random parameters (SlabLayout::device_chain).
  std::size_t on_device = 0;
  /// The operations that the device applies to the whole batch at the end. The loader only
  /// generates their random parameters (SlabLayout::batch_chain).
  BatchOps batch_ops = {};
  /// For images that travel as Wire::jpeg: the largest size of a file that is transferred, by
  /// default 256 KiB. Workers decode larger files. Every slab has space for files of this size, or
  /// for the finished images if those are larger.
  std::size_t jpeg_bytes = 256 << 10;
  /// Memory resource of the slabs; nullptr: the default resource.
  std::pmr::memory_resource* memory = nullptr;
  /// Records every step of every sample, with a row for each thread, and the filling of every slab,
  /// with a row for each slab. There are no rows of slabs if batches are cached (a cut after
  /// "collate"). The pointer is shared because workers also fill slabs after the traced run.
  /// nullptr: nothing is recorded.
  std::shared_ptr<TraceRecorder> trace = nullptr;
  bool operator==(const DataLoaderOptions&) const = default;
};

/// Returns the number of samples of one rank in the last step of an epoch, if the ranks share it:
/// batch_size, or the remaining samples divided by the number of ranks, rounded up. REQUIRES:
/// batch_size and rank.count are above 0
std::size_t last_share(std::uint64_t samples, const DataLoaderOptions& options);

/// A filled slab. It belongs to the caller until release().
struct HostBatch {
  std::uint64_t number = 0;         ///< number of the batch, counted through all epochs
  std::uint32_t epoch = 0;          ///< counted from 0
  std::size_t slab = 0;             ///< index of the slab, below DataLoader::slabs()
  const std::byte* data = nullptr;  ///< the slab, in the layout of DataLoader::layout()
  /// Number of batches that were ready when this one was requested, including this one. 0: next()
  /// waited for it.
  std::size_t filled = 0;
  double blocked_s = 0;  ///< how long next() waited for it
  /// The positions at which a bad sample was replaced by another sample, in no particular order.
  std::vector<std::size_t> stand_ins = {};
};

/// Number of samples whose times DataLoader::laps() keeps for each worker and step.
inline constexpr std::size_t kKeptLaps = 1024;

/// Loads batches with worker threads, which read, decode and transform samples and write them
/// directly into slabs (SlabLayout). The content of a batch does not depend on the number of
/// workers. An incomplete batch at the end of an epoch is dropped or completed
/// (DataLoaderOptions::drop_last). The next epoch follows without a pause, indefinitely. Step k
/// takes batch k of every rank, so all ranks resume with the same first_batch.
///
/// The loader allocates prefetch_batches + held_batches slabs (with a cut after "collate", its
/// number of batches) at construction, and uses buffers of each worker, 2 x ReadAhead::reads raw
/// samples and the cache. The bytes between fields of a slab are always 0. One thread must make all
/// calls of ready(), next() and release(). If images travel as JPEG files, the cache must be after
/// "read", and a cut after "read" or "collate".
class DataLoader {
 public:
  /// Checks the options and starts the threads. Throws Refused with all problems at once, one on
  /// each line: a field whose shape is not fixed by a transform ("add resize"), a batch of all
  /// ranks together that is larger than the data set, labels or weights for another number of
  /// samples, an unknown cut, a cache after a random transform, a wire format that a field does not
  /// support, CPUs that the process may not use, or another invalid option. With a cut, rethrows
  /// the error of the first item that could not be made.
  DataLoader(std::shared_ptr<const Dataset> dataset, std::vector<NamedOp> transforms,
             DataLoaderOptions options);
  /// Stops and joins all threads. Waits only for calls that are already running, such as
  /// Dataset::read().
  ~DataLoader();
  DataLoader(const DataLoader&) = delete;
  DataLoader& operator=(const DataLoader&) = delete;

  /// Returns the layout of batches in the slabs.
  const SlabLayout& layout() const;
  /// Returns the number of slabs.
  std::size_t slabs() const;
  /// Returns the number of batches in an epoch of this rank. REQUIRES: DataLoaderOptions::batches
  /// is nullptr
  std::uint64_t batches_per_epoch() const;

  /// Must be called after batches were added to DataLoaderOptions::batches, so that workers
  /// continue.
  void notify_added();
  /// Returns true if next() would return or throw without waiting.
  bool ready();
  /// Waits for the next batch in order and returns it. If a sample of this batch failed, throws the
  /// error of the first one, which names the step, the sample and its file. Every later call throws
  /// the same error. REQUIRES: fewer than DataLoaderOptions::held_batches batches are held
  HostBatch next();
  /// Returns the slab to the loader. A worker fills it again only after waiting for `last_use`,
  /// which must have been recorded; with nullptr, it may be filled at once. `last_use` must exist
  /// until the loader is destroyed or next() returns the slab again. With a cut after "collate" the
  /// call does nothing. REQUIRES: `batch` is held
  void release(const HostBatch& batch, const Mark* last_use);
  /// Returns the memory of a held batch. It stays valid as long as the pointer exists, even if the
  /// loader has been destroyed. DataLoaderOptions::memory must exist for the same time.
  std::shared_ptr<const std::byte> memory(const HostBatch& batch) const;

  /// Returns the cost of each host step in order: read, decode, each transform, collate. Steps that
  /// the cache replaces are not counted. May be called from any thread.
  std::vector<StepCounter> counters() const;
  /// Returns the times of individual samples for the same steps as counters(): for each worker,
  /// those of its last samples, at most kKeptLaps, in order. With ReadAhead, times of reads are
  /// those of the reading threads. May be called from any thread; an entry that a worker overwrites
  /// during the call belongs to a newer sample.
  std::vector<StepLaps> laps() const;
  /// Returns the content and the use of the cache. May be called from any thread.
  CacheCounters cache() const;
  /// Returns the total time that next() has waited, in seconds. May be called from any thread.
  double blocked_s() const;
  /// Returns the bad samples that have been skipped so far (OnBadSample::skip), and the samples
  /// that were used although their files are damaged. May be called from any thread.
  SkippedSamples skipped() const;

  /// Makes the constructor's checks of fields and wire formats and returns the layout, without
  /// starting a thread. Only batch_size, wire, jpeg_bytes, on_device and batch_ops are used. Throws
  /// Refused as the constructor does.
  static SlabLayout plan_layout(const Dataset& dataset, const std::vector<NamedOp>& transforms,
                                const DataLoaderOptions& options);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace slipstream
