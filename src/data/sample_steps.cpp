#include "data/sample_steps.h"

#include <utility>

#include "data/bad_samples.h"
#include "data/collate.h"
#include "data/slab_layout.h"
#include "slipstream/error.h"

namespace slipstream {
namespace {

constexpr std::size_t kRead = 0;
constexpr std::size_t kDecode = 1;
constexpr std::size_t kFirstTransform = 2;

/// REQUIRES: called while an exception is handled
std::string message_of_current_exception() {
  try {
    throw;
  } catch (const std::exception& error) {
    return error.what();
  } catch (...) {
    return "unknown exception";
  }
}

/// REQUIRES: called while an exception is handled
bool current_exception_is_error() {
  try {
    throw;
  } catch (const Error&) {
    return true;
  } catch (...) {
    return false;
  }
}

std::string name_in(const Dataset& dataset, std::uint64_t sample) {
  try {
    return dataset.name(sample);
  } catch (...) {
    return "name unknown";
  }
}

}  // namespace

void copy_sample(const Sample& from, Sample& to) {
  to.fields.resize(from.fields.size());
  for (std::size_t i = 0; i < from.fields.size(); ++i) {
    to.fields[i].array.assign(from.fields[i].array.view());
    to.fields[i].encoded = from.fields[i].encoded;
  }
}

SampleSteps::SampleSteps(std::shared_ptr<const Dataset> dataset, std::vector<NamedOp> transforms,
                         SlabLayout layout, std::uint64_t seed, const DecodeOptions& decode)
    : dataset_(std::move(dataset)),
      transforms_(std::move(transforms)),
      layout_(std::move(layout)),
      seed_(seed),
      decode_(decode),
      names_(step_names(transforms_)),
      stored_(dataset_->fields()) {}

void SampleSteps::run(std::size_t first, std::size_t last, const SamplePlace& place,
                      SampleBuffers& buffers, StepMeter& meter) const {
  StepClock clock;
  for (std::size_t step = first; step < last; ++step) {
    try {
      const std::size_t bytes = run_step(step, place, buffers);
      meter.add(step, clock.lap(), bytes);
    } catch (...) {
      throw_named(step, place);
    }
  }
}

void SampleSteps::collate(const SamplePlace& place, const Sample& sample, std::byte* slab,
                          StepMeter& meter) const {
  StepClock clock;
  try {
    std::size_t bytes = 0;
    for (std::size_t i = 0; i < layout_.fields.size(); ++i) {
      slipstream::collate(layout_.fields[i], sample.fields[i].array.view(), place.position, slab);
      bytes += layout_.fields[i].sample_bytes;
    }
    meter.add(collate_step(), clock.lap(), bytes);
  } catch (...) {
    throw_named(collate_step(), place);
  }
}

std::size_t SampleSteps::run_step(std::size_t step, const SamplePlace& place,
                                  SampleBuffers& buffers) const {
  if (step == kRead) return read(place, buffers);
  if (step == kDecode) return decode(buffers);
  return transform(step - kFirstTransform, place, buffers);
}

std::size_t SampleSteps::read(const SamplePlace& place, SampleBuffers& buffers) const {
  std::vector<Field>& fields = buffers.sample.fields;
  for (Field& field : fields) field.encoded = false;
  dataset_->read(place.sample, buffers.sample);
  if (fields.size() != stored_.size()) {
    throw Error("the data set gave " + std::to_string(fields.size()) + " fields, not the " +
                std::to_string(stored_.size()) + " it declares");
  }
  std::size_t bytes = 0;
  for (const Field& field : fields) bytes += field.array.view().bytes();
  return bytes;
}

std::size_t SampleSteps::decode(SampleBuffers& buffers) const {
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < stored_.size(); ++i) {
    Field& field = buffers.sample.fields[i];
    if (!field.encoded) continue;
    dataset_->decode(stored_[i], decode_, field, buffers.spare[i]);
    field.encoded = false;
    bytes += field.array.view().bytes();
  }
  return bytes;
}

std::size_t SampleSteps::transform(std::size_t index, const SamplePlace& place,
                                   SampleBuffers& buffers) const {
  const AnyOp& op = transforms_[index].op;
  const RandomKey key = {.seed = seed_,
                         .epoch = place.epoch,
                         .sample = place.sample,
                         .occurrence = place.occurrence,
                         .operation = static_cast<std::uint32_t>(index)};
  op.apply(key, stored_, buffers.sample, buffers.spare, buffers.scratch);
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < stored_.size(); ++i) {
    if (op.touches(stored_[i].kind)) bytes += buffers.sample.fields[i].array.view().bytes();
  }
  return bytes;
}

void SampleSteps::throw_named(std::size_t step, const SamplePlace& place) const {
  const std::string message =
      "step '" + names_[step] + "' of sample " + std::to_string(place.sample) + " (" +
      name_in(*dataset_, place.sample) + ", epoch " + std::to_string(place.epoch) + ", batch " +
      std::to_string(place.batch) + "): " + message_of_current_exception();
  // What a transform throws is its own fault, and what is no Error the machine's.
  const bool is_transform = step >= kFirstTransform && step < collate_step();
  if (is_transform || !current_exception_is_error()) throw Error(message);
  throw BadSample(message);
}

}  // namespace slipstream
