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
class DeviceChain;
class TraceRecorder;
struct PackedField;

/// Where one field of a batch lies. A slab is the block of host memory that holds a batch: each
/// field has batch_size samples in it, one after the other. The device has a block of its own,
/// where stages find the field.
struct SlabField {
  /// One sample of the field after the last transform on the host. Where images of different sizes
  /// are cropped or resized on the device, it is the image of one size that holds them on the way.
  FieldSpec spec;
  Wire wire = Wire::plain;
  DType dtype = DType::uint8;    ///< as stages see it: labels of up to 256 classes are uint8
  std::size_t offset_bytes = 0;  ///< in the slab, a multiple of 256
  std::size_t sample_bytes = 0;  ///< size of one sample in the slab
  /// In the device's block, a multiple of 256; unless Wire::host.
  std::size_t device_offset_bytes = 0;
};

/// How all fields of a batch lie in one block of memory, so that one copy moves a batch. The first
/// `copied_bytes` of the slab go to the start of the device's block. Fields that travel packed or
/// as JPEG files are expanded there, after these bytes. The layout depends only on the fields, the
/// forms in which they travel and the batch size. Plain fields come first, then packed ones, then
/// those that stay on the host or are JPEG files, which the device's decoder takes from the slab.
struct SlabLayout {
  std::vector<SlabField> fields;
  std::size_t batch_size = 0;
  std::size_t bytes = 0;         ///< size of a slab
  std::size_t copied_bytes = 0;  ///< bytes of the slab that are copied to the device
  std::size_t device_bytes = 0;  ///< size of the device's block
  /// The fields that are expanded on the device; nullptr: none.
  std::shared_ptr<const std::vector<PackedField>> packed = nullptr;
  /// The transforms that the device does; nullptr: none. Their drawn parameters are the field
  /// kDrawnField, after the fields of the samples.
  std::shared_ptr<const DeviceChain> device_chain = nullptr;
  /// The operations that the device then does to the whole batch; nullptr: none. Where they mix
  /// samples, their drawn parameters are the field kMixField, the last of `fields`.
  std::shared_ptr<const BatchChain> batch_chain = nullptr;

  /// The field of that name. Throws Error, naming the known fields, for another name.
  const SlabField& field(const std::string& name) const;
};

/// The name of the field that holds the parameters of SlabLayout::device_chain, for each sample.
inline constexpr const char* kDrawnField = "augment.parameters";
/// The name of the field that holds the parameters of SlabLayout::batch_chain, for each sample.
inline constexpr const char* kMixField = "mix.parameters";

/// Lets cached items stand in for everything up to a step, so that the rest can be measured. The
/// items are the first ones of the run's order. They are made when the loader is constructed, which
/// counters() does not count, and are taken in turn. Samples keep their numbers, so random steps
/// after the cut still draw anew in each epoch.
struct HostCut {
  std::string after;      ///< "read", "decode", a transform's name, or "collate"
  std::size_t items = 0;  ///< number of samples, or after "collate" of batches
  bool operator==(const HostCut&) const = default;
};

/// What a DataLoader does, and how.
struct DataLoaderOptions : SampleOptions, LoadingOptions {
  /// Without drop_last: whether the ranks share what is left for an epoch's last step. Each then
  /// has last_share() of its samples, rank 0 the first ones, completed to equally many from the
  /// epoch's beginning. The samples after these in the batch are not part of the step.
  bool shares_last_step = false;
  std::size_t held_batches = 2;  ///< batches that the caller holds at once: next() before release()
  std::uint64_t first_batch = 0;  ///< where to begin; batches are numbered through all epochs
  std::optional<HostCut> cut = std::nullopt;  ///< no value: the loader does all steps
  /// The number of transforms, counted from the last, that the device applies to the batch. The
  /// loader only draws their parameters (SlabLayout::device_chain).
  std::size_t on_device = 0;
  /// The operations that the device applies to the whole batch in the end. The loader only draws
  /// their parameters (SlabLayout::batch_chain).
  BatchOps batch_ops = {};
  /// For images that travel as Wire::jpeg: the size of the largest file that does, by default 256
  /// KiB. Workers decode larger ones. Every slab can hold files of this size, or the finished
  /// images if those are larger.
  std::size_t jpeg_bytes = 256 << 10;
  std::pmr::memory_resource* memory = nullptr;  ///< slabs' memory; nullptr: the default resource
  /// Records every step of every sample, with a row for each thread, and the filling of every slab,
  /// with a row for each slab. The latter is left out where batches are cached (a cut after
  /// "collate"). It is shared because workers fill slabs beyond the run that is traced. nullptr:
  /// nothing is recorded.
  std::shared_ptr<TraceRecorder> trace = nullptr;
  bool operator==(const DataLoaderOptions&) const = default;
};

/// Samples of one rank in the last step of an epoch, where the ranks share it: all of a batch, or
/// what is left divided by the ranks, rounded up.
/// REQUIRES: batch_size and rank.count are above 0
std::size_t last_share(std::uint64_t samples, const DataLoaderOptions& options);

/// A filled slab. The caller holds it until release().
struct HostBatch {
  std::uint64_t number = 0;         ///< counted through all epochs
  std::uint32_t epoch = 0;          ///< counted from 0
  std::size_t slab = 0;             ///< which slab, below DataLoader::slabs()
  const std::byte* data = nullptr;  ///< the slab, as DataLoader::layout() describes it
  /// Batches that lay filled when this one was asked for, itself included. 0: next() waited for it.
  std::size_t filled = 0;
  double blocked_s = 0;  ///< how long next() waited for it
  /// The positions at which another sample took the place of a bad one, in no order.
  std::vector<std::size_t> stand_ins = {};
};

/// The number of samples whose times DataLoader::laps() keeps for each worker and step.
inline constexpr std::size_t kKeptLaps = 1024;

/// Loads batches with worker threads, which read, decode and transform samples and write them
/// straight into slabs (SlabLayout). What a batch holds does not depend on the number of workers.
/// Batches that would not be full at the end of an epoch are dropped or completed
/// (DataLoaderOptions::drop_last). The next epoch follows without a gap, without end. Step k takes
/// batch k of every rank, so all ranks resume with the same first_batch.
///
/// The memory is prefetch_batches + held_batches slabs (with a cut after "collate" its number of
/// batches), taken at construction, each worker's buffers, 2 x ReadAhead::reads raw samples and the
/// cache. The bytes between fields of a slab are always 0. ready(), next() and release() are called
/// by one thread. Where images travel as JPEG files, the cache must be after "read", and
/// a cut after "read" or "collate".
class DataLoader {
 public:
  /// Checks the options and starts the threads. Throws Refused with all problems at once, one in
  /// each line: a field whose shape no transform fixes ("add resize"), a batch of all ranks
  /// together that is larger than the data set, labels or weights for another number of samples, an
  /// unknown cut, a cache after a random transform, a form of travel that a field cannot take, CPUs
  /// that the process may not use, another bad option. With a cut, throws what making its items
  /// threw, for the first of them that failed.
  DataLoader(std::shared_ptr<const Dataset> dataset, std::vector<NamedOp> transforms,
             DataLoaderOptions options);
  /// Stops and joins all threads. It waits for the calls in flight, and for no others.
  ~DataLoader();
  DataLoader(const DataLoader&) = delete;
  DataLoader& operator=(const DataLoader&) = delete;

  /// How batches lie in the slabs.
  const SlabLayout& layout() const;
  /// The number of slabs.
  std::size_t slabs() const;
  /// The number of batches of one epoch, for this rank.
  std::uint64_t batches_per_epoch() const;

  /// Whether next() would return or throw without waiting.
  bool ready();
  /// Waits for the next batch in order and returns it. Throws the error of the first sample of this
  /// batch that failed, which names the step, the sample and its file. Every later call throws the
  /// same. REQUIRES: fewer than DataLoaderOptions::held_batches batches are held
  HostBatch next();
  /// Gives the slab back. A worker fills it again only after it has waited for `last_use`, which
  /// must be recorded; nullptr: at once. `last_use` must live until the loader is destroyed or
  /// next() returns the slab again. With a cut after "collate" the call does nothing. REQUIRES:
  /// `batch` is held
  void release(const HostBatch& batch, const Mark* last_use);
  /// The memory of a held batch, which lives as long as the pointer does, also when the loader is
  /// gone. DataLoaderOptions::memory must live as long.
  std::shared_ptr<const std::byte> memory(const HostBatch& batch) const;

  /// The cost of each host step in order: read, decode, each transform, collate. Steps that the
  /// cache stands in for are not counted. May be called from any thread.
  std::vector<StepCounter> counters() const;
  /// The times of single samples for the same steps: those of each worker's last samples, at most
  /// kKeptLaps, in their order. Reads ahead (ReadAhead) have the times of the threads that read.
  /// May be called from any thread; an entry that a worker overwrites meanwhile is of a newer
  /// sample.
  std::vector<StepLaps> laps() const;
  /// What the cache holds and how often it was used. May be called from any thread.
  CacheCounters cache() const;
  /// The seconds that next() has waited, in all.
  double blocked_s() const;
  /// The bad samples that were skipped so far (OnBadSample::skip), and those that were used in
  /// spite of damage. May be called from any thread.
  SkippedSamples skipped() const;

  /// Does the constructor's checks of fields and forms and returns the layout, without starting a
  /// thread. Only batch_size, wire, jpeg_bytes, on_device and batch_ops have a part in it. Throws
  /// Refused as the constructor does.
  static SlabLayout plan_layout(const Dataset& dataset, const std::vector<NamedOp>& transforms,
                                const DataLoaderOptions& options);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace slipstream
