#include "bindings/python_lister.h"

#include <pybind11/stl.h>

#include <algorithm>
#include <exception>

#include "bindings/gil.h"
#include "bindings/python_module.h"
#include "bindings/python_steps.h"
#include "slipstream/core/error.h"

namespace slipstream {
namespace {

namespace py = pybind11;

py::object call(py::handle order, const char* name, const py::tuple& arguments) {
  return call_in_run(py::object(order.attr(name)), arguments);
}

}  // namespace

std::vector<BatchQueue::Item> make_items(const ListedBatch& batch, std::uint64_t samples) {
  std::vector<BatchQueue::Item> items;
  for (const auto& [sample, occurrence] : batch) {
    if (sample >= samples)
      throw Error("the sampler gives index " + std::to_string(sample) + ", but the data set has " +
                  std::to_string(samples) + " samples, counted from 0");
    items.push_back({sample, occurrence});
  }
  return items;
}

PythonLister::PythonLister(const OrderSettings& settings, py::handle kept, std::uint64_t samples,
                           std::uint64_t steps)
    : order_(kept_in(kept, settings.order)),
      batches_per_epoch_(settings.batches_per_epoch),
      batch_size_(settings.batch_size),
      samples_(samples),
      steps_(steps) {}

void PythonLister::list(std::uint64_t trained, std::uint64_t next, std::uint64_t end) {
  queue_->drop_before(trained);
  const std::uint64_t first = queue_->size();
  end = std::min(end, steps_);
  if (first >= end) return;
  if (invalid_ == nullptr) {
    const GilAcquire locked;
    const py::object listed = call(order_, "take", py::make_tuple(trained, next, first, end));
    for (const auto& [number, batch] :
         listed.cast<std::vector<std::pair<std::uint64_t, ListedBatch>>>()) {
      try {
        queue_->add(number, make_batch(batch));
      } catch (const Error&) {
        invalid_ = std::current_exception();
        break;
      }
    }
  }
  if (invalid_ != nullptr && next >= queue_->size()) std::rethrow_exception(invalid_);
}

std::vector<BatchQueue::Item> PythonLister::make_batch(const ListedBatch& batch) const {
  if (batch.size() > batch_size_)
    throw Error("the batch sampler lists " + std::to_string(batch.size()) +
                " samples in a batch, but its batch_size is " + std::to_string(batch_size_) +
                ": set the attribute batch_size of the batch sampler to the size of its largest "
                "batch");
  return make_items(batch, samples_);
}

std::string PythonLister::state(std::uint64_t position) {
  const GilAcquire locked;
  return call(order_, "state", py::make_tuple(position)).cast<std::string>();
}

void PythonLister::restore(std::uint64_t position, const std::string& state) {
  const GilAcquire locked;
  call(order_, "restore", py::make_tuple(position, py::bytes(state)));
  queue_ = std::make_shared<BatchQueue>(position);
  invalid_ = nullptr;
}

}  // namespace slipstream
