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
#include "bindings/feed.h"
#include "bindings/interrupts.h"
#include "bindings/sample_texts.h"
#include "bindings/worker_pool.h"
#include "engine/device_feed.h"
#include "slipstream/engine/context.h"
#include "slipstream/engine/stage.h"
#include "slipstream/loader/data_loader.h"

namespace slipstream {

/// How samples that Python made become batches of the same form. Made with Python's lock.
struct SampleForm {
  /// Of a field that is bytes: the type and shape of one sample.
  using Leaf = std::optional<std::pair<at::ScalarType, std::vector<std::int64_t>>>;

  std::vector<Leaf> leaves;  ///< empty: all fields are as they are
  /// Makes a batch of the tuple of its tensors and the list of its samples' strings, as bytes.
  pybind11::object build;

  SampleForm(std::vector<Leaf> all, pybind11::object function)
      : leaves(std::move(all)), build(std::move(function)) {}
  ~SampleForm();
  SampleForm(const SampleForm&) = delete;
  SampleForm& operator=(const SampleForm&) = delete;
};

/// A batch as Python gets it.
struct GivenBatch {
  std::vector<at::Tensor> tensors;
  std::vector<std::string> texts;  ///< of each sample, if any; in host memory
};

/// The C++ loader for Python, which begins to read at seek(): epochs of batches, each a list of
/// tensors, one for each field, with images as batch x channels x height x width in channels-last
/// memory and labels as int64, or as float32, batch x classes, behind operations over the batch.
/// These are done to whole batches, ahead of leaving off what completes a smaller one.
class NativeLoader {
 public:
  /// `context`: of the device whose page-locked memory it fills. Without drop_last the ranks share
  /// what is left for the last batch of an epoch, which is as small as this rank's share. `pool`:
  /// processes for what is in Python, or nullptr; `form` is that of their samples. Throws Refused
  /// as DataLoader does.
  NativeLoader(std::shared_ptr<Context> context, std::shared_ptr<const Dataset> dataset,
               std::vector<NamedOp> transforms, DataLoaderOptions options,
               std::shared_ptr<WorkerPool> pool, std::shared_ptr<const SampleForm> form);
  ~NativeLoader();

  std::uint64_t batches_per_epoch() const;
  /// Throws Refused in a forked process, where it has worker processes or a GPU.
  void check_process() const;
  /// Goes to a batch, counted through all epochs. A forked process reads on with threads of its
  /// own. Throws as check_process() does.
  void seek(std::uint64_t batch);
  /// Ends what its threads do; seek() begins anew.
  void halt();
  /// Loads the share of another rank after the next seek(). Throws Refused, and changes nothing,
  /// if the data set is too small for that many.
  void take_ranks(std::size_t rank, std::size_t ranks);
  /// The number of calls of seek(): a reader is refused after a seek() of another one.
  std::uint64_t passes() const { return passes_; }
  /// Takes the next batch, without Python's lock. Needs it not to be at the end of the epoch.
  void take(std::uint64_t pass);
  bool ready();
  std::uint64_t position() const { return position_; }
  /// Whether on_device() takes long, and no Python has a part in it or in take().
  bool wants_thread() const {
    return !pool_ && (has_format(options_.wire, Wire::jpeg) || must_have_thread_);
  }
  /// For tests: as if it did.
  void want_thread(bool must) { must_have_thread_ = must; }

  /// The batch that was taken, in host memory. Tensors hold its memory, but for what was mixed;
  /// where more batches are held than the loader has memory for, they are copies.
  GivenBatch on_host(std::uint64_t pass);
  /// The same on the device, behind the transforms that are done there, enqueued on `lane`, whose
  /// stream is the current one.
  GivenBatch on_device(std::uint64_t pass, Lane& lane);

  /// Its tensors and strings as the samples have them.
  pybind11::object built(const GivenBatch& batch) const;

  /// The same from the first batch on, for measurements: full batches, by `workers`, with what is
  /// ahead of `cut` cached. Throws Refused where something is in Python.
  std::shared_ptr<NativeLoader> examined(std::optional<HostCut> cut, unsigned workers) const;

  Context& context() { return *context_; }
  const std::shared_ptr<const Dataset>& dataset() const { return dataset_; }
  /// Those of samples; options() has those over the batch.
  const std::vector<NamedOp>& transforms() const { return transforms_; }
  const DataLoaderOptions& options() const { return options_; }
  /// Whether the last batch of an epoch is as small as this rank's share of what is left.
  bool keeps_rest() const { return !options_.drop_last; }

  /// The bad samples that were skipped so far.
  SkippedSamples skipped();
  /// Those that a run over the same data set skipped with a loader of its own.
  void add_skipped(const SkippedSamples& skipped);

 private:
  struct Returned;
  void start(std::uint64_t batch);
  void check_pass(std::uint64_t pass) const;
  HostBatch handed_over(std::uint64_t pass);
  std::vector<std::string> read_texts(const HostBatch& batch) const;
  /// Whether that field of a slab says where strings are: the one behind all leaves.
  bool is_of_texts(std::size_t field) const { return texts_ && field == form_->leaves.size(); }
  /// Ends its threads, and waits for the copies of its slabs, which others get.
  void stop();
  /// All fields of `memory`, that of a slab.
  std::vector<at::Tensor> views(const at::Tensor& memory) const;
  /// What Python gets of all fields, behind the transforms that are done to batches, which are
  /// enqueued on the current stream. Undefined ones are not there.
  std::vector<at::Tensor> run_augmentation(std::vector<at::Tensor> all) const;
  /// A field of the batch that was taken, as Python gets it.
  at::Tensor given(const at::Tensor& whole, FieldKind kind, std::size_t field) const;
  std::int64_t size_of_taken() const;
  /// Which samples of the batch are in order: all but those that took the place of a bad one. No
  /// value: all, as in training, where batches stay full.
  std::optional<at::Tensor> good_ones(const HostBatch& batch) const;

  std::mutex using_;  ///< by one thread at a time; nobody waits for Python's lock with it
  std::shared_ptr<Context> context_;
  std::shared_ptr<const Dataset> dataset_;
  std::vector<NamedOp> transforms_;
  DataLoaderOptions options_;
  const ProcessGuard first_in_;  ///< the process that made it
  ProcessGuard made_in_;         ///< that of feed_
  std::shared_ptr<WorkerPool> pool_;
  std::shared_ptr<const SampleForm> form_;
  std::shared_ptr<SampleTexts> texts_;  ///< nullptr: samples have no strings
  std::shared_ptr<PoolUser> user_;      ///< for the feed's loader, where there is a pool
  std::optional<FrozenStage> augment_;  ///< where the device does transforms
  std::optional<FrozenStage> mix_;      ///< of the operations over batches, if any
  std::unique_ptr<DeviceFeed> feed_;    ///< has a loader after seek() and until halt()
  std::shared_ptr<Returned> returned_;
  std::optional<HostBatch> taken_;
  std::optional<at::Tensor> good_ones_;  ///< of the batch that is handed over
  SkippedSamples skipped_;               ///< by loaders that were ended
  std::atomic<std::uint64_t> position_ = 0;
  std::atomic<std::uint64_t> passes_ = 0;
  bool must_have_thread_ = false;
  std::uint64_t batches_per_epoch_ = 0;
};

/// One epoch of a native loader, or what is left of it.
class NativeFeed final : public Feed {
 public:
  explicit NativeFeed(std::shared_ptr<NativeLoader> loader);

  bool ready() override;
  bool take() override;
  pybind11::object moved(Lane& lane) override;
  bool wants_thread() const override { return loader_->wants_thread(); }
  std::vector<at::Tensor> move(Lane& lane) override { return batch(lane).tensors; }
  void interrupt() override { is_interrupted_ = true; }

 private:
  GivenBatch batch(Lane& lane);

  std::shared_ptr<NativeLoader> loader_;
  std::uint64_t pass_;
  std::uint64_t end_;
  std::atomic<bool> is_interrupted_ = false;
  SignalPoll signals_;
};

}  // namespace slipstream
