#pragma once

#include <torch/csrc/utils/pybind.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bindings/contexts.h"
#include "bindings/sample_texts.h"
#include "bindings/worker_pool.h"
#include "engine/device_feed.h"
#include "slipstream/engine/context.h"
#include "slipstream/engine/stage.h"
#include "slipstream/loader/data_loader.h"

namespace slipstream {

/// Describes how batches get the form of the samples that Python returned. Created with the GIL.
struct SampleForm {
  /// For a field that is transported as bytes: the dtype and shape of one sample.
  using Leaf = std::optional<std::pair<at::ScalarType, std::vector<std::int64_t>>>;

  std::vector<Leaf> leaves;  ///< empty: no field is transported as bytes
  /// Called with the tuple of a batch's tensors and the list of its samples' strings, as bytes.
  /// Returns the batch.
  pybind11::object build;

  SampleForm(std::vector<Leaf> all, pybind11::object function)
      : leaves(std::move(all)), build(std::move(function)) {}
  ~SampleForm();
  SampleForm(const SampleForm&) = delete;
  SampleForm& operator=(const SampleForm&) = delete;
};

/// The tensors and strings of a batch for Python.
struct GivenBatch {
  std::vector<at::Tensor> tensors;
  std::vector<std::string> texts;  ///< strings of each sample, if any, in host memory
};

/// How a NativeLoader passes batches to Python.
struct DeliveryOptions {
  /// Only for a context on the CPU: the context of the GPU in whose page-locked memory batches are
  /// written; nullptr: batches are in ordinary memory.
  std::shared_ptr<Context> pins_for = nullptr;
  double timeout_s = 0;  ///< time after which waiting for a batch is an error; 0: no limit
};

/// The C++ loader for Python. It begins to read at seek(). A batch is a list of tensors, one for
/// each field: images as batch x channels x height x width in channels-last memory; labels as
/// int64, or after operations on whole batches as float32 of batch x classes. Such operations
/// always run on full batches. If a batch is smaller, its additional samples are removed
/// afterwards.
class NativeLoader {
 public:
  /// `context`: that of the device for which batches are written to page-locked memory. Without
  /// drop_last, the ranks share the remaining samples of an epoch, and the last batch has as many
  /// as this rank's share. `pool`: worker processes for code in Python, or nullptr. `form`: that of
  /// their samples. Throws Refused as DataLoader does.
  NativeLoader(std::shared_ptr<Context> context, std::shared_ptr<const Dataset> dataset,
               std::vector<NamedOp> transforms, DataLoaderOptions options,
               std::shared_ptr<WorkerPool> pool, std::shared_ptr<const SampleForm> form,
               DeliveryOptions delivery = {});
  ~NativeLoader();

  std::uint64_t batches_per_epoch() const;
  /// Throws Refused in a forked process if the loader uses worker processes, a GPU or a cache on
  /// disk.
  void check_process() const;
  /// Moves to a batch, numbered through all epochs. In a forked process, the loader starts new
  /// threads. Throws as check_process() does.
  void seek(std::uint64_t batch);
  /// Stops the loader's threads. seek() starts them again.
  void halt();
  /// Selects what is loaded after the next seek() or begin_epoch(): the batch size (0: unchanged),
  /// the rank whose share is loaded, and the seed of the order and of random transforms. Throws
  /// Refused, and changes nothing, if the data set is too small for that.
  void configure(std::size_t batch_size, std::size_t rank, std::size_t ranks, std::uint64_t seed);
  /// Number of calls of seek(). A reader is refused after a seek() for another reader.
  std::uint64_t passes() const { return passes_; }
  /// Creates a loader with the same options and separate threads and memory. It shares the worker
  /// processes.
  std::shared_ptr<NativeLoader> copy() const;

  /// Whether the batches of an epoch are listed by add_batch() instead of computed. Then
  /// begin_epoch() replaces seek().
  bool is_listed() const { return is_listed_; }
  /// Begins an epoch without batches. Throws as check_process() does.
  void begin_epoch();
  /// Adds a batch to the epoch, with a number for BatchQueue::add(). Returns false, and adds
  /// nothing, if the batch is larger than all earlier ones and these must be taken first, because
  /// the loader then allocates larger memory. Throws Refused for an index that the data set does
  /// not have. REQUIRES: `samples`, pairs of index and occurrence, is not empty
  bool add_batch(std::uint64_t pass, std::uint64_t number,
                 const std::vector<std::pair<std::uint64_t, std::uint16_t>>& samples);
  /// Ends the epoch after the batches that were added.
  void end_epoch(std::uint64_t pass);
  /// Whether all batches of the epoch have been taken.
  bool is_over();

  /// Takes the next batch, without the GIL. REQUIRES: the epoch has not ended
  void take(std::uint64_t pass);
  bool ready();
  std::uint64_t position() const { return position_; }
  /// Whether on_device() takes long, and neither it nor take() needs Python.
  bool wants_thread() const {
    return !pool_ && (has_format(options_.wire, Wire::jpeg) || must_have_thread_);
  }
  /// Makes wants_thread() return true. Only for tests.
  void want_thread(bool must) { must_have_thread_ = must; }

  /// Returns the taken batch in host memory. The tensors share the loader's memory, except for
  /// mixed fields. If the caller keeps more batches than the loader has memory for, they are
  /// copies.
  GivenBatch on_host(std::uint64_t pass);
  /// Returns the taken batch on the device, after the transforms that run there. Enqueues the work
  /// on the stream of `lane`, which is the current stream.
  GivenBatch on_device(std::uint64_t pass, Lane& lane);

  /// Converts a batch to the structure of the samples. Needs the GIL.
  pybind11::object built(const GivenBatch& batch) const;

  /// Creates a loader for measurements: it starts at the first batch, produces only full batches
  /// with `workers` threads, and caches the results of the step that `cut` names. `listed`: if a
  /// sampler lists the batches, the samples of its batches in order, which are read instead, in
  /// batches of `batch_size`; otherwise nullptr. Throws Refused if a step is in Python.
  std::shared_ptr<NativeLoader> examined(std::optional<HostCut> cut, unsigned workers,
                                         std::shared_ptr<const Dataset> listed,
                                         std::size_t batch_size) const;

  double timeout_s() const { return delivery_.timeout_s; }
  Context& context() { return *context_; }
  const std::shared_ptr<const Dataset>& dataset() const { return dataset_; }
  /// Transforms of samples. options() contains the operations on whole batches.
  const std::vector<NamedOp>& transforms() const { return transforms_; }
  const DataLoaderOptions& options() const { return options_; }
  /// Whether the last batch of an epoch may be smaller than the others.
  bool keeps_rest() const { return !options_.drop_last && !is_listed(); }

  /// Costs of the host steps since the threads were started; empty if there are no threads.
  std::vector<StepCounter> counters();
  /// Bad samples that have been skipped.
  SkippedSamples skipped();
  /// Returns the content and the use of the cache in memory; no value without one. This loader and
  /// its copies share the cache.
  std::optional<CacheCounters> cache() const;
  /// Adds bad samples that a run over the same data set skipped with a separate loader.
  void add_skipped(const SkippedSamples& skipped);

 private:
  struct Returned;
  /// Prepares for the options, which must be valid, and stops the threads.
  void take_options(DataLoaderOptions options);
  void start(std::uint64_t batch);
  /// Creates an empty cache in memory, if there shall be one.
  void clear_cache();
  void check_pass(std::uint64_t pass) const;
  HostBatch handed_over(std::uint64_t pass);
  std::vector<std::string> read_texts(const HostBatch& batch) const;
  /// Whether this field of a slab contains the positions of strings, which are after all leaves.
  bool is_of_texts(std::size_t field) const { return texts_ && field == form_->leaves.size(); }
  /// Ends the threads, and waits for the copies of the slabs, because other loaders reuse their
  /// memory.
  void stop();
  /// Returns all fields as views of `memory`, the memory of a slab.
  std::vector<at::Tensor> views(const at::Tensor& memory) const;
  /// Applies the transforms of whole batches on the current stream, and returns the fields that are
  /// passed to Python. Missing fields are undefined tensors.
  std::vector<at::Tensor> run_augmentation(std::vector<at::Tensor> all) const;
  /// Returns a field of the taken batch in the form in which Python gets it.
  at::Tensor given(const at::Tensor& whole, FieldKind kind, std::size_t field) const;
  /// Returns `tensor` in page-locked memory if batches are page-locked.
  at::Tensor pinned(const at::Tensor& tensor) const;
  std::int64_t size_of_taken() const;
  /// Indices of the samples that did not replace a bad sample. Empty: all samples are used, as in
  /// training, where batches stay full.
  std::optional<at::Tensor> good_ones(const HostBatch& batch) const;

  /// Lets one thread at a time use the loader. No thread waits for the GIL while it holds this.
  std::mutex using_;
  std::shared_ptr<Context> context_;
  std::shared_ptr<const Dataset> dataset_;
  std::vector<NamedOp> transforms_;
  DataLoaderOptions options_;
  /// Kept from one loader of feed_ to the next; nullptr: there is no cache in memory.
  std::shared_ptr<SampleCache> samples_;
  const bool is_cached_on_disk_;
  const ProcessGuard first_in_;  ///< the process that created the loader
  ProcessGuard made_in_;         ///< the process that created feed_
  std::shared_ptr<WorkerPool> pool_;
  std::shared_ptr<const SampleForm> form_;
  std::shared_ptr<SampleTexts> texts_;  ///< nullptr: samples have no strings
  std::shared_ptr<PoolUser> user_;      ///< for the feed's loader, if there is a pool
  std::optional<FrozenStage> augment_;  ///< the transforms that run on the device, if any
  std::optional<FrozenStage> mix_;      ///< the operations on whole batches, if any
  std::unique_ptr<DeviceFeed> feed_;    ///< has a loader after seek() and until halt()
  std::shared_ptr<Returned> returned_;
  std::optional<HostBatch> taken_;
  std::optional<at::Tensor> good_ones_;  ///< those of the taken batch
  SkippedSamples skipped_;               ///< by loaders that have ended
  std::atomic<std::uint64_t> position_ = 0;
  std::atomic<std::uint64_t> passes_ = 0;
  bool must_have_thread_ = false;
  std::uint64_t batches_per_epoch_ = 0;  ///< not used if batches are listed
  const DeliveryOptions delivery_;
  const bool is_listed_;
  bool has_listed_all_ = false;  ///< end_epoch() was called
};

}  // namespace slipstream
