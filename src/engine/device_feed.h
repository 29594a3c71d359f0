#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "engine/device_memory.h"
#include "engine/device_slab.h"
#include "engine/jpeg_unpacker.h"
#include "slipstream/engine/context.h"
#include "slipstream/engine/result.h"
#include "slipstream/loader/data_loader.h"

namespace slipstream {

/// Takes batches from a DataLoader to a device. It keeps the loader from epoch to epoch and from
/// run to run, copies its slabs, decodes images that travel as JPEG files on the device, and gives
/// each slab back to the loader after its copy. One thread at a time calls it.
class DeviceFeed {
 public:
  /// Counters of a loader and of the decoder of its JPEG files.
  struct Counted {
    double blocked_s = 0;
    std::vector<StepCounter> counters = {};
    std::uint64_t skipped_positions = 0;
    std::optional<JpegResult> jpeg = std::nullopt;  ///< no value: no images travel as files
    std::optional<CacheCounters> cache = std::nullopt;
    std::optional<DiskCacheState> disk_cache = std::nullopt;

    /// Subtracts `earlier`, a reading of the same counters.
    void subtract(const Counted& earlier);
  };

  /// `context` must outlive this. So must options.memory of each loader.
  explicit DeviceFeed(Context& context);
  ~DeviceFeed();
  DeviceFeed(const DeviceFeed&) = delete;
  DeviceFeed& operator=(const DeviceFeed&) = delete;

  /// Creates the decoder of images that are copied as JPEG files, if there are any. Reads no
  /// sample. Throws Refused if nvJPEG is not installed, and as DataLoader::plan_layout() does.
  void prepare(const std::shared_ptr<const Dataset>& dataset,
               const std::vector<NamedOp>& transforms, const DataLoaderOptions& options);
  /// Whether there is a loader that has these options and returns batch options.first_batch next.
  /// A loader with a cut, which returns the same items repeatedly, is also at its first batch.
  bool is_at(const DataLoaderOptions& options) const;
  /// Moves to batch options.first_batch: continues with the present loader if is_at(), or
  /// prepares and starts another one. `lane` makes the marks of the copies. Returns what was
  /// counted before the first batch that follows. Throws Refused as prepare() and DataLoader do.
  Counted seek(const std::shared_ptr<const Dataset>& dataset,
               const std::vector<NamedOp>& transforms, const DataLoaderOptions& options,
               Lane& lane);
  /// Ends the loader, after the copies of its slabs, whose memory others may get. Does not throw: a
  /// device that is lost is reported by its next use.
  void stop() noexcept;

  /// The loader, or nullptr before seek() and after stop().
  const DataLoader* loader() const { return loader_.get(); }
  /// Returns the counters since the loader was started. REQUIRES: loader() is not nullptr
  Counted counted() const;

  /// Makes the loader continue after batches were added to options.batches. REQUIRES: loader() is
  /// not nullptr
  void notify_added() { loader_->notify_added(); }
  /// Whether the loader's next batch is ready. REQUIRES: loader() is not nullptr
  bool ready() { return loader_->ready(); }
  /// Returns the loader's next batch. REQUIRES: loader() is not nullptr
  HostBatch take();
  /// Whether take() threw: is_at() is false until seek() has started another loader.
  bool has_failed() const { return has_failed_; }
  /// Returns the slab of a batch to the loader at once, without copying the batch.
  void release(const HostBatch& batch) { loader_->release(batch, nullptr); }

  /// Copies `batch` to `slab` and decodes its JPEG files there, enqueued on `lane` (finished on
  /// return for a host lane). The loader fills the batch's slab again after this work, also where
  /// the copy throws. An empty `slab` gets fresh memory, allocated on the current stream.
  void copy(const HostBatch& batch, DeviceSlab& slab, Lane& lane);

 private:
  bool has_files() const { return has_format(options_.wire, Wire::jpeg); }

  Context& context_;
  DeviceMemory memory_;
  std::shared_ptr<const Dataset> dataset_;
  DataLoaderOptions options_;               ///< options of loader_
  std::unique_ptr<JpegUnpacker> unpacker_;  ///< outlives loaders, whose batches it reads
  /// One for each slab; they outlive the loader, whose workers wait for them.
  std::vector<std::unique_ptr<Mark>> marks_;
  std::vector<bool> is_recorded_;  ///< for each mark, whether it was recorded
  std::unique_ptr<DataLoader> loader_;
  std::uint64_t next_ = 0;  ///< the batch that take() returns next
  bool has_failed_ = false;
};

}  // namespace slipstream
