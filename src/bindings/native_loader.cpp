#include "bindings/native_loader.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <mutex>

#include "bindings/gil.h"
#include "bindings/process_dataset.h"
#include "bindings/python_lister.h"
#include "engine/augment_stage.h"
#include "engine/context_parts.h"
#include "engine/mix_stage.h"
#include "loader/batch_queue.h"
#include "loader/checked_layout.h"
#include "loader/running_order.h"
#include "loader/sample_cache.h"
#include "slipstream/datasets/disk_cache.h"

namespace slipstream {
namespace {

namespace py = pybind11;

/// Number of batches in the loader's memory that callers may keep.
constexpr std::size_t kHeldBatches = 6;
constexpr std::size_t kSmallPart = 8;

/// Copies a field that is a small part of its batch. Otherwise a caller that keeps or saves only
/// this field would keep the whole slab.
at::Tensor without_rest(const at::Tensor& field) {
  const bool is_small = field.nbytes() < field.storage().nbytes() / kSmallPart;
  return is_small ? field.clone() : field;
}

std::shared_ptr<const Dataset> used_by(const std::shared_ptr<const PoolUser>& user,
                                       std::shared_ptr<const Dataset> dataset) {
  const auto* in_python = dynamic_cast<const ProcessDataset*>(dataset.get());
  return in_python == nullptr ? dataset : in_python->used_by(user);
}

std::vector<NamedOp> used_by(const std::shared_ptr<const PoolUser>& user,
                             std::vector<NamedOp> chain) {
  for (NamedOp& each : chain) {
    const auto* in_python = each.op.get_if<PythonOp>();
    if (in_python == nullptr) continue;
    PythonOp used = *in_python;
    used.user = user;
    each.op = std::move(used);
  }
  return chain;
}

}  // namespace

/// Slabs whose tensors have been freed. Any thread may free the last tensor of a slab.
struct NativeLoader::Returned {
  std::mutex changing;
  std::vector<HostBatch> batches;
  std::size_t held = 0;
};

SampleForm::~SampleForm() {
  const GilAcquire locked;
  build = {};
}

NativeLoader::NativeLoader(std::shared_ptr<Context> context, std::shared_ptr<const Dataset> dataset,
                           std::vector<NamedOp> transforms, DataLoaderOptions options,
                           std::shared_ptr<WorkerPool> pool, std::shared_ptr<const SampleForm> form,
                           DeliveryOptions delivery)
    : context_(std::move(context)),
      dataset_(std::move(dataset)),
      transforms_(std::move(transforms)),
      options_(std::move(options)),
      samples_(options_.shared_samples),
      is_cached_on_disk_(disk_cache_state(*dataset_).has_value()),
      pool_(std::move(pool)),
      form_(std::move(form)),
      delivery_(std::move(delivery)),
      is_listed_(options_.batches != nullptr) {
  if (const auto* in_python = dynamic_cast<const ProcessDataset*>(dataset_.get()))
    texts_ = in_python->texts();
  options_.held_batches = kHeldBatches;
  options_.memory = &get_host_memory(delivery_.pins_for ? *delivery_.pins_for : *context_, true);
  feed_ = std::make_unique<DeviceFeed>(*context_);
  take_options(options_);
  if (samples_ == nullptr) clear_cache();
  feed_->prepare(dataset_, transforms_, options_);
}

void NativeLoader::take_options(DataLoaderOptions options) {
  options.shares_last_step = keeps_rest() && options.rank.count > 1;
  const SlabLayout layout = checked_layout(*dataset_, transforms_, options);
  stop();
  options_ = std::move(options);
  if (!is_listed())
    batches_per_epoch_ = RunningOrder(dataset_->size(), options_).batches_per_epoch();
  if (layout.device_chain != nullptr) augment_ = augment_stage(layout, true);
  if (layout.batch_chain != nullptr) mix_ = mix_stage(layout);
}

std::shared_ptr<NativeLoader> NativeLoader::copy() const {
  check_process();
  std::shared_ptr<const Dataset> dataset = dataset_;
  if (const auto* in_python = dynamic_cast<const ProcessDataset*>(dataset_.get()))
    dataset = in_python->separate();
  DataLoaderOptions options = options_;
  options.shared_samples = samples_;
  if (is_listed()) options.batches = std::make_shared<BatchQueue>();
  return std::make_shared<NativeLoader>(context_, std::move(dataset), transforms_,
                                        std::move(options), pool_, form_, delivery_);
}

std::shared_ptr<NativeLoader> NativeLoader::examined(std::optional<HostCut> cut, unsigned workers,
                                                     std::shared_ptr<const Dataset> listed,
                                                     std::size_t batch_size) const {
  if (pool_)
    throw Refused(
        "a slipstream.DataLoader whose data set or transforms are written in Python cannot be "
        "measured yet: examine them in a torch.utils.data.DataLoader");
  DataLoaderOptions options = options_;
  options.prefetch_batches = options_.prefetch_batches / options_.num_workers * workers;
  options.num_workers = workers;
  options.first_batch = 0;
  options.drop_last = true;
  options.cut = std::move(cut);
  options.batches = nullptr;
  options.shared_samples = nullptr;
  if (listed != nullptr) options.batch_size = batch_size;
  return std::make_shared<NativeLoader>(context_, listed ? std::move(listed) : dataset_,
                                        transforms_, std::move(options), nullptr, nullptr);
}

NativeLoader::~NativeLoader() {
  if (!made_in_.is_this_process()) {
    static_cast<void>(feed_.release());  // leaked: its threads are not in this process
    return;
  }
  // stop() may take long. The last reference may be released by a thread with or without the GIL.
  std::optional<GilRelease> unlocked;
  if (PyGILState_Check() == 1) unlocked.emplace();
  stop();
}

void NativeLoader::stop() {
  taken_.reset();
  if (!made_in_.is_this_process()) {
    static_cast<void>(feed_.release());
    feed_ = std::make_unique<DeviceFeed>(*context_);
    made_in_ = {};
    clear_cache();  // at the fork, threads of the parent may have been adding samples
  }
  if (user_) pool_->interrupt(*user_);
  if (feed_->loader() != nullptr) skipped_.add(feed_->loader()->skipped());
  feed_->stop();
  if (texts_) texts_->clear();
}

void NativeLoader::start(std::uint64_t batch) {
  stop();
  options_.first_batch = position_ = batch;
  options_.shared_samples = samples_;
  std::shared_ptr<const Dataset> dataset = dataset_;
  std::vector<NamedOp> transforms = transforms_;
  if (pool_) {
    user_ = std::make_shared<PoolUser>();
    dataset = used_by(user_, std::move(dataset));
    transforms = used_by(user_, std::move(transforms));
  }
  returned_ = std::make_shared<Returned>();
  feed_->seek(dataset, transforms, options_, get_lane(*context_, "copy", 0));
}

void NativeLoader::clear_cache() {
  if (!options_.cache || options_.cut) return;
  samples_ =
      std::make_shared<SampleCache>(dataset_->size(), dataset_->fields().size(), *options_.cache);
}

std::optional<CacheCounters> NativeLoader::cache() const {
  if (samples_ == nullptr) return std::nullopt;
  return samples_->counters();
}

void NativeLoader::check_process() const {
  if (pool_ || is_cached_on_disk_ || context_->kind() == DeviceKind::cuda || delivery_.pins_for)
    first_in_.require_this_process("this loader");
}

void NativeLoader::seek(std::uint64_t batch) {
  check_process();  // in a fork, using_ may be locked by a thread that only the parent has
  const std::lock_guard using_it(using_);
  ++passes_;
  options_.first_batch = batch;
  if (!made_in_.is_this_process() || taken_ || !feed_->is_at(options_)) start(batch);
}

void NativeLoader::halt() {
  const std::lock_guard using_it(using_);
  stop();
}

void NativeLoader::configure(std::size_t batch_size, std::size_t rank, std::size_t ranks,
                             std::uint64_t seed) {
  const std::lock_guard using_it(using_);
  DataLoaderOptions options = options_;
  if (batch_size > 0) options.batch_size = batch_size;
  options.rank = {rank, ranks};
  options.seed = seed;
  if (options != options_) take_options(std::move(options));
}

void NativeLoader::begin_epoch() {
  check_process();
  const std::lock_guard using_it(using_);
  ++passes_;
  has_listed_all_ = false;
  const bool is_used_up =
      !taken_ && made_in_.is_this_process() && position_ == options_.batches->size();
  if (is_used_up && feed_->loader() != nullptr && !feed_->has_failed()) return;
  // Workers may be loading batches of an iteration that was left.
  stop();
  options_.batches = std::make_shared<BatchQueue>();
  position_ = 0;
}

bool NativeLoader::add_batch(std::uint64_t pass, std::uint64_t number,
                             const std::vector<std::pair<std::uint64_t, std::uint16_t>>& samples) {
  const std::lock_guard using_it(using_);
  check_pass(pass);
  std::vector<BatchQueue::Item> items = make_items(samples, dataset_->size());
  if (samples.size() > options_.batch_size) {
    if (position_ < options_.batches->size() || taken_) return false;
    DataLoaderOptions options = options_;
    // Some more than this batch needs, because the next one may be larger again.
    options.batch_size = std::max(samples.size(), options_.batch_size + options_.batch_size / 2);
    take_options(std::move(options));
  }
  if (feed_->loader() == nullptr) start(position_);
  options_.batches->add(number, std::move(items));
  feed_->notify_added();
  return true;
}

void NativeLoader::end_epoch(std::uint64_t pass) {
  const std::lock_guard using_it(using_);
  check_pass(pass);
  has_listed_all_ = true;
}

bool NativeLoader::is_over() {
  const std::lock_guard using_it(using_);
  return has_listed_all_ && position_ >= options_.batches->size();
}

std::uint64_t NativeLoader::batches_per_epoch() const { return batches_per_epoch_; }

bool NativeLoader::ready() {
  const std::lock_guard using_it(using_);
  return taken_ || !made_in_.is_this_process() || feed_->loader() == nullptr || feed_->ready();
}

void NativeLoader::check_pass(std::uint64_t pass) const {
  if (pass != passes_)
    throw Error(
        "the position of the loader was changed during this iteration: finish one iteration first, "
        "or create a loader for each");
}

void NativeLoader::take(std::uint64_t pass) {
  const std::lock_guard using_it(using_);
  check_pass(pass);
  made_in_.require_this_process("this iterator of a loader");
  if (feed_->loader() == nullptr)
    throw Error("another thread ended the loader: create one loader for each thread");
  if (taken_)
    throw Error(
        "another thread is requesting a batch of this loader: create one loader for each thread");
  {
    const std::lock_guard lock(returned_->changing);
    // Not released when the tensors are freed: any thread may free a tensor, but only one at a time
    // may use the feed.
    for (const HostBatch& batch : returned_->batches) feed_->release(batch);
    returned_->batches.clear();
  }
  if (feed_->has_failed()) start(position_);
  ++position_;  // also if the batch fails, so that the next call takes the next one
  if (is_listed()) options_.batches->drop_before(position_ - 1);
  taken_ = feed_->take();
}

at::Tensor NativeLoader::pinned(const at::Tensor& tensor) const {
  return delivery_.pins_for && !tensor.is_pinned() ? tensor.pin_memory() : tensor;
}

std::int64_t NativeLoader::size_of_taken() const {
  if (is_listed()) return static_cast<std::int64_t>(options_.batches->batch_size(position_ - 1));
  const auto whole = static_cast<std::int64_t>(options_.batch_size);
  if (!keeps_rest() || position_ % batches_per_epoch() != 0) return whole;
  return static_cast<std::int64_t>(last_share(dataset_->size(), options_));
}

at::Tensor NativeLoader::given(const at::Tensor& whole, FieldKind kind, std::size_t field) const {
  at::Tensor samples = whole.narrow(0, 0, size_of_taken());
  if (good_ones_)
    samples = samples.index_select(0, good_ones_->to(samples.device()))
                  .contiguous(whole.suggest_memory_format());
  if (form_ && form_->leaves.at(field)) {
    const auto& [dtype, shape] = *form_->leaves[field];
    std::vector<std::int64_t> sizes = {samples.size(0)};
    sizes.insert(sizes.end(), shape.begin(), shape.end());
    if (samples.numel() == 0) return at::empty(sizes, samples.options().dtype(dtype));
    return without_rest(samples.view(dtype).view(sizes).variable_data());
  }
  const bool is_number = (kind == FieldKind::label && !mix_) || kind == FieldKind::mask;
  return without_rest(is_number ? samples.to(at::kLong) : samples);
}

std::vector<at::Tensor> NativeLoader::views(const at::Tensor& memory) const {
  std::vector<at::Tensor> all;
  for (const SlabField& field : feed_->loader()->layout().fields)
    all.push_back(make_view(memory, field, field.offset_bytes,
                            static_cast<std::int64_t>(options_.batch_size)));
  return all;
}

std::vector<at::Tensor> NativeLoader::run_augmentation(std::vector<at::Tensor> all) const {
  const std::vector<SlabField>& fields = feed_->loader()->layout().fields;
  if (augment_ || mix_) {
    Batch batch;
    for (std::size_t i = 0; i < all.size(); ++i)
      if (all[i].defined()) batch.set(fields[i].spec.name, all[i]);
    if (augment_) augment_->run(batch);
    if (mix_) mix_->run(batch);
    for (std::size_t i = 0; i < all.size(); ++i)
      if (all[i].defined()) all[i] = batch.at(fields[i].spec.name);
  }
  std::vector<at::Tensor> made;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const FieldSpec& spec = fields[i].spec;
    const bool is_own = spec.name == kDrawnField || spec.name == kMixField || is_of_texts(i);
    if (all[i].defined() && !is_own) made.push_back(pinned(given(all[i], spec.kind, i)));
  }
  return made;
}

GivenBatch NativeLoader::on_host(std::uint64_t pass) {
  const std::lock_guard using_it(using_);
  const HostBatch batch = handed_over(pass);
  std::vector<std::string> texts = read_texts(batch);
  const auto bytes = static_cast<std::int64_t>(feed_->loader()->layout().bytes);
  const auto options = at::TensorOptions().dtype(at::kByte);
  bool is_full = false;
  {
    const std::lock_guard lock(returned_->changing);
    // If this batch keeps its slab, the loader must be able to lend another one for the next batch,
    // which can be copied only after that.
    is_full = returned_->held + 2 > kHeldBatches;
    if (!is_full) ++returned_->held;
  }
  if (is_full) {
    const at::Tensor copy = at::empty({bytes}, options);
    std::memcpy(copy.mutable_data_ptr(), batch.data, feed_->loader()->layout().bytes);
    feed_->release(batch);
    return {run_augmentation(views(copy)), std::move(texts)};
  }
  // The tensors keep the slab, and the memory that contains it, alive.
  const auto return_slab = [batch, returned = returned_, memory = feed_->loader()->memory(batch),
                            context = context_, made_in = made_in_](void*) {
    // In a forked process the memory is leaked: a thread of the parent may have been using it.
    if (!made_in.is_this_process()) {
      static_cast<void>(new auto(memory));
      return;
    }
    const std::lock_guard lock(returned->changing);
    returned->batches.push_back(batch);
    --returned->held;
  };
  const at::Tensor slab =
      at::from_blob(const_cast<std::byte*>(batch.data), {bytes}, return_slab, options);
  return {run_augmentation(views(slab)), std::move(texts)};
}

HostBatch NativeLoader::handed_over(std::uint64_t pass) {
  check_pass(pass);
  if (!taken_)
    throw Error(
        "another thread changed the position of the loader: create one loader for each thread");
  good_ones_ = good_ones(*taken_);
  return *std::exchange(taken_, std::nullopt);
}

std::optional<at::Tensor> NativeLoader::good_ones(const HostBatch& batch) const {
  const bool is_evaluation = !options_.shuffle && keeps_rest() && options_.rank.count == 1;
  if (batch.stand_ins.empty() || !(is_listed() || is_evaluation)) return std::nullopt;
  std::vector<std::int64_t> good;
  for (std::int64_t i = 0; i < size_of_taken(); ++i)
    if (std::ranges::find(batch.stand_ins, static_cast<std::size_t>(i)) == batch.stand_ins.end())
      good.push_back(i);
  if (good.empty())
    throw Error("batch " + std::to_string(batch.number) + ": all its samples are bad, the first: " +
                feed_->loader()->skipped().samples.front().message);
  return at::tensor(good);
}

std::vector<StepCounter> NativeLoader::counters() {
  const std::lock_guard using_it(using_);
  if (!made_in_.is_this_process() || feed_->loader() == nullptr) return {};
  return feed_->loader()->counters();
}

SkippedSamples NativeLoader::skipped() {
  const std::lock_guard using_it(using_);
  SkippedSamples all = skipped_;
  if (made_in_.is_this_process() && feed_->loader() != nullptr) all.add(feed_->loader()->skipped());
  return all;
}

void NativeLoader::add_skipped(const SkippedSamples& skipped) {
  const std::lock_guard using_it(using_);
  skipped_.add(skipped);
}

std::vector<std::string> NativeLoader::read_texts(const HostBatch& batch) const {
  if (!texts_) return {};
  const SlabField& places = feed_->loader()->layout().fields.at(form_->leaves.size());
  std::vector<std::string> all =
      texts_->take(batch.data + places.offset_bytes, options_.batch_size);
  all.resize(static_cast<std::size_t>(size_of_taken()));
  if (!good_ones_) return all;
  std::vector<std::string> good;
  for (std::int64_t i = 0; i < good_ones_->numel(); ++i)
    good.push_back(
        std::move(all[static_cast<std::size_t>(good_ones_->data_ptr<std::int64_t>()[i])]));
  return good;
}

GivenBatch NativeLoader::on_device(std::uint64_t pass, Lane& lane) {
  const std::lock_guard using_it(using_);
  const HostBatch batch = handed_over(pass);
  std::vector<std::string> texts = read_texts(batch);
  DeviceSlab slab;
  feed_->copy(batch, slab, lane);
  std::vector<at::Tensor> all(feed_->loader()->layout().fields.size());
  auto next = slab.fields.begin();
  for (std::size_t i = 0; i < all.size(); ++i)
    if (feed_->loader()->layout().fields[i].wire != Wire::host) all[i] = (next++)->second;
  return {run_augmentation(std::move(all)), std::move(texts)};
}

py::object NativeLoader::built(const GivenBatch& batch) const {
  if (!form_) return py::cast(batch.tensors);
  py::tuple all = py::cast(batch.tensors);
  py::list texts;
  for (const std::string& text : batch.texts) texts.append(py::bytes(text));
  return form_->build(std::move(all), std::move(texts));
}

}  // namespace slipstream
