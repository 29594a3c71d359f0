#include "bindings/native_features.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "bindings/file_name.h"
#include "bindings/gil.h"
#include "features/feature_store.h"
#include "slipstream/core/error.h"

namespace slipstream {
namespace {

namespace py = pybind11;

/// Throws Refused unless the tensor is contiguous in host memory and has the type and the shape.
void require(const at::Tensor& tensor, const char* name, at::ScalarType type,
             at::IntArrayRef shape) {
  if (tensor.device().is_cpu() && tensor.layout() == at::kStrided && tensor.is_contiguous() &&
      tensor.scalar_type() == type && tensor.sizes() == shape)
    return;
  throw Refused(std::string(name) + " must be a contiguous " + at::toString(type) +
                " tensor of the shape " + c10::str(shape) + " on the CPU, not " +
                at::toString(tensor.scalar_type()) + " " + c10::str(tensor.sizes()) + " on " +
                tensor.device().str());
}

std::int64_t rows(const at::Tensor& tensor) { return tensor.dim() > 0 ? tensor.size(0) : 0; }

std::span<const FeatureEntry> as_entries(const at::Tensor& entries) {
  static_assert(sizeof(FeatureEntry) == 2 * sizeof(std::int64_t));
  require(entries, "the entries", at::kLong, {rows(entries), 2});
  return {static_cast<const FeatureEntry*>(entries.const_data_ptr()),
          static_cast<std::size_t>(rows(entries))};
}

std::span<const std::int64_t> as_numbers(const at::Tensor& numbers, const char* name,
                                         std::int64_t count) {
  require(numbers, name, at::kLong, {count});
  return {numbers.const_data_ptr<std::int64_t>(), static_cast<std::size_t>(count)};
}

void require_records(const FeatureStore& store, const at::Tensor& records, std::int64_t count) {
  require(records, "the records", at::kByte,
          {count, static_cast<std::int64_t>(store.record_bytes())});
}

at::Tensor find(FeatureStore& store, const at::Tensor& entries) {
  const std::span<const FeatureEntry> wanted = as_entries(entries);
  const GilRelease unlocked;
  const std::vector<std::int64_t> numbers = store.find(wanted);
  const at::Tensor found =
      at::empty({static_cast<std::int64_t>(numbers.size())}, at::TensorOptions(at::kLong));
  std::copy(numbers.begin(), numbers.end(), found.mutable_data_ptr<std::int64_t>());
  return found;
}

at::Tensor read(FeatureStore& store, const at::Tensor& numbers, const at::Tensor& into,
                unsigned threads) {
  const std::span<const std::int64_t> wanted = as_numbers(numbers, "the numbers", rows(numbers));
  require_records(store, into, rows(numbers));
  const GilRelease unlocked;
  const std::vector<bool> good = store.read(
      wanted, {static_cast<std::byte*>(into.mutable_data_ptr()), into.nbytes()}, threads);
  const at::Tensor is_good =
      at::empty({static_cast<std::int64_t>(good.size())}, at::TensorOptions(at::kBool));
  std::copy(good.begin(), good.end(), is_good.mutable_data_ptr<bool>());
  return is_good;
}

std::size_t write(FeatureStore& store, const at::Tensor& entries, const at::Tensor& samples,
                  const at::Tensor& records) {
  const std::span<const FeatureEntry> made = as_entries(entries);
  const std::span<const std::int64_t> indices =
      as_numbers(samples, "the indices of samples", rows(entries));
  require_records(store, records, rows(entries));
  const GilRelease unlocked;
  return store.write(made, indices,
                     {static_cast<const std::byte*>(records.const_data_ptr()), records.nbytes()});
}

py::dict stats(const FeatureStore& store) {
  const FeatureStats counted = store.stats();
  py::dict stats;
  stats["records"] = counted.records;
  stats["bytes"] = counted.bytes;
  stats["hits"] = counted.hits;
  stats["misses"] = counted.misses;
  stats["damaged"] = counted.damaged;
  return stats;
}

std::unique_ptr<FeatureStore> open_store(const std::string& folder, const std::string& key,
                                         const std::string& description,
                                         std::optional<std::uint64_t> budget_bytes) {
  const GilRelease unlocked;
  return std::make_unique<FeatureStore>(folder, key, description, budget_bytes);
}

}  // namespace

void add_features(py::module_& module) {
  py::class_<FeatureStore>(module, "FeatureStore")
      .def(py::init(&open_store))
      .def_property_readonly("record_bytes", &FeatureStore::record_bytes)
      .def("find", &find)
      .def("read", &read)
      .def("write", &write)
      .def("refresh",
           [](FeatureStore& store) {
             const GilRelease unlocked;
             return store.refresh();
           })
      .def("filling_ended",
           // The message may have the name of a folder, which need not be UTF-8.
           [](const FeatureStore& store) { return file_name(store.filling_ended()); })
      .def("stats", &stats)
      .def("close", [](FeatureStore& store) {
        const GilRelease unlocked;
        store.close();
      });
}

}  // namespace slipstream
