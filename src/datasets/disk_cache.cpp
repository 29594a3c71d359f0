#include "slipstream/datasets/disk_cache.h"

#include <utility>

#include "core/fingerprint.h"
#include "datasets/disk_manifest.h"
#include "datasets/disk_store.h"
#include "datasets/forwarding_dataset.h"
#include "slipstream/core/error.h"

namespace slipstream {
namespace {

// DiskCached is a template, so disk_cache_state() needs a common base to find the store.
class HasDiskStore {
 public:
  HasDiskStore() = default;
  virtual ~HasDiskStore() = default;
  HasDiskStore(const HasDiskStore&) = delete;
  HasDiskStore& operator=(const HasDiskStore&) = delete;
  virtual DiskCacheState state() const = 0;
};

const Dataset& checked(const Dataset* dataset, const DiskCacheOptions& options) {
  if (dataset == nullptr) throw Refused("the data set to cache on disk is null");
  if (options.dir.empty()) throw Refused("a disk cache needs a folder: name one");
  return *dataset;
}

DiskStore make_store(const Dataset& dataset, const std::vector<FieldSpec>& fields,
                     const DiskCacheOptions& options) {
  if (fields.size() > kMaxRecordFields) {
    throw Refused("the data set has " + std::to_string(fields.size()) +
                  " fields; a disk cache takes at most " + std::to_string(kMaxRecordFields));
  }
  const std::string identity =
      options.identity.empty() ? to_hex(dataset.identity()) : options.identity;
  return DiskStore(options, disk_manifest(dataset.size(), fields, identity), dataset.size(),
                   fields.size());
}

template <typename Base>
class DiskCached : public ForwardingDataset<Base>, public HasDiskStore {
 public:
  DiskCached(std::shared_ptr<const Base> dataset, const DiskCacheOptions& options)
      : ForwardingDataset<Base>(std::move(dataset)),
        fields_(checked(dataset_.get(), options).fields()),
        store_(make_store(*dataset_, fields_, options)) {}

  std::vector<FieldSpec> fields() const override { return fields_; }
  void read(std::size_t index, Sample& out) const override {
    ensure(index < dataset_->size(), "a sample's index is below the size of its data set");
    if (store_.read(index, out)) return;
    dataset_->read(index, out);
    store_.write(index, out);
  }
  DiskCacheState state() const override { return store_.state(); }

 protected:
  using ForwardingDataset<Base>::dataset_;

 private:
  std::vector<FieldSpec> fields_;
  mutable DiskStore store_;
};

class LabeledDiskCached final : public DiskCached<LabeledDataset> {
 public:
  using DiskCached::DiskCached;
  std::int64_t label(std::size_t index) const override { return dataset_->label(index); }
};

}  // namespace

std::shared_ptr<const Dataset> disk_cached(std::shared_ptr<const Dataset> dataset,
                                           const DiskCacheOptions& options) {
  return std::make_shared<DiskCached<Dataset>>(std::move(dataset), options);
}

std::shared_ptr<const LabeledDataset> disk_cached(std::shared_ptr<const LabeledDataset> dataset,
                                                  const DiskCacheOptions& options) {
  return std::make_shared<LabeledDiskCached>(std::move(dataset), options);
}

std::optional<DiskCacheState> disk_cache_state(const Dataset& dataset) {
  const auto* cached = dynamic_cast<const HasDiskStore*>(&dataset);
  if (cached == nullptr) return std::nullopt;
  return cached->state();
}

}  // namespace slipstream
