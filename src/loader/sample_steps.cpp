#include "loader/sample_steps.h"

#include <algorithm>
#include <utility>

#include "core/number_text.h"
#include "core/plain_message.h"
#include "loader/bad_samples.h"
#include "loader/partial_decoding.h"
#include "loader/slab_layout.h"
#include "slipstream/core/error.h"

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
    return plain_message(error);
  } catch (...) {
    return "unknown exception";
  }
}

std::span<const std::byte> encoded_file(const Field& field) { return as_bytes(field.array.view()); }

std::string name_in(const Dataset& dataset, std::uint64_t sample) {
  try {
    return printable_name(dataset.name(sample));
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
      route_(transforms_, layout_),
      check_(route_.is_taken() ? std::make_unique<JpegCheck>(dataset_->size()) : nullptr),
      seed_(seed),
      decode_(decode),
      names_(step_names(transforms_)),
      first_(first_reader(transforms_, layout_)),
      decodes_parts_(decodes_parts(*dataset_, first_, decode_)),
      stored_(dataset_->fields()),
      writer_(layout_, stored_, seed_) {
  for (std::size_t i = 0; i < transforms_.size(); ++i)
    key_numbers_.push_back(key_number(transforms_, i));
}

std::size_t SampleSteps::step_after(const std::string& name) const {
  const auto step = std::find(names_.begin(), names_.end(), name);
  return static_cast<std::size_t>(step - names_.begin()) + 1;
}

TraceWriter SampleSteps::traced(TraceRecorder* recorder, TraceRow::Kind kind,
                                unsigned index) const {
  if (recorder == nullptr) return {};
  const std::string what = kind == TraceRow::Kind::reader ? "reader " : "worker ";
  return {*recorder, recorder->row(kind, what + std::to_string(index), names_)};
}

template <typename Work>
void SampleSteps::metered(std::size_t step, const SamplePosition& place, StepClock& clock,
                          StepMeter& meter, const Work& work) const {
  try {
    const std::size_t bytes = work();
    meter.add(step, place, clock.lap(), bytes);
  } catch (...) {
    throw_named(step, place);
  }
}

void SampleSteps::read(const SamplePosition& place, Sample& out, StepMeter& meter) const {
  StepClock clock;
  metered(kRead, place, clock, meter, [&] { return read_fields(place, out); });
}

void SampleSteps::run(std::size_t first, std::size_t last, const SamplePosition& place,
                      SampleBuffers& buffers, StepMeter& meter, bool is_kept) const {
  StepClock clock;
  // An image that is cached right after decoding must be complete, because later epochs crop other
  // parts of it.
  const bool must_be_complete = !decodes_parts_ || (is_kept && last <= kFirstTransform);
  buffers.has_part = false;
  buffers.file.reset();
  for (std::size_t step = first; step < last; ++step) {
    metered(step, place, clock, meter,
            [&] { return run_step(step, must_be_complete, place, buffers); });
  }
}

void SampleSteps::collate(const SamplePosition& place, SampleBuffers& buffers, std::byte* slab,
                          StepMeter& meter) const {
  const bool is_part = buffers.has_part && transforms_.empty();
  const DecodedPart* const part = is_part ? &buffers.part : nullptr;
  collate_by(place, meter, [&] {
    return writer_.write(place, buffers.sample, buffers.file, part, buffers.canvas, slab);
  });
}

void SampleSteps::collate(const SamplePosition& place, const Sample& sample, CanvasMemory& memory,
                          std::byte* slab, StepMeter& meter) const {
  collate_by(place, meter,
             [&] { return writer_.write(place, sample, std::nullopt, nullptr, memory, slab); });
}

void SampleSteps::collate(const SamplePosition& place, std::span<const CachedField> sample,
                          CanvasMemory& memory, std::byte* slab, StepMeter& meter) const {
  collate_by(place, meter, [&] { return writer_.write(place, sample, memory, slab); });
}

template <typename Write>
void SampleSteps::collate_by(const SamplePosition& place, StepMeter& meter,
                             const Write& write) const {
  StepClock clock;
  metered(collate_step(), place, clock, meter, write);
}

std::size_t SampleSteps::run_step(std::size_t step, bool must_be_complete,
                                  const SamplePosition& place, SampleBuffers& buffers) const {
  if (step == kRead) return read_fields(place, buffers.sample);
  if (step == kDecode) return decode(place, buffers, must_be_complete);
  return transform(step - kFirstTransform, place, buffers);
}

std::size_t SampleSteps::read_fields(const SamplePosition& place, Sample& out) const {
  std::vector<Field>& fields = out.fields;
  fields.resize(stored_.size());
  for (Field& field : fields) field.encoded = false;
  dataset_->read_keyed(place.sample, random_key(seed_, 0, place), out);
  if (fields.size() != stored_.size()) {
    throw Error("the data set returned " + format_count(fields.size(), "field") +
                ", but it declares " + std::to_string(stored_.size()));
  }
  std::size_t bytes = 0;
  for (const Field& field : fields) bytes += field.array.view().bytes();
  return bytes;
}

void SampleSteps::find_part(const SamplePosition& place, SampleBuffers& buffers) const {
  const AnyOp& op = *first_;
  const auto is_image = [&](const FieldSpec& spec) {
    return spec.kind == FieldKind::image && op.touches(spec.kind);
  };
  const auto found = std::find_if(stored_.begin(), stored_.end(), is_image);
  if (found == stored_.end()) return;
  const Field& field = buffers.sample.fields[static_cast<std::size_t>(found - stored_.begin())];
  if (!field.encoded) return;
  try {
    const Shape stored = image_shape(encoded_file(field));
    const Window whole{{0, 0, stored[0], stored[1]}};
    buffers.part.whole = {stored[0], stored[1], 3};
    Window wanted = op.window(random_key(seed_, 0, place), buffers.part.whole);
    if (!decode_.partial) wanted.region = whole.region;
    if (!decode_.scaled) wanted.reduction = 1;
    if (wanted == whole) return;
    buffers.part.wanted = wanted;
  } catch (...) {
    return;  // the step that reads the image throws it again and is named in the message
  }
  buffers.part.fields.assign(stored_.size(), std::nullopt);
  buffers.part.elsewhere.clear();
  buffers.has_part = true;
}

void SampleSteps::find_file(const SamplePosition& place, SampleBuffers& buffers) const {
  if (!route_.is_taken()) return;
  const Field& field = buffers.sample.fields[route_.field()];
  if (!field.encoded) return;
  buffers.file = route_.slot_for(encoded_file(field), random_key(seed_, 0, place));
  if (!buffers.file) return;
  if (buffers.file->height > decode_.pixel_limit / buffers.file->width) {
    return buffers.file.reset();  // too large; the decode step throws the error
  }
  if (!check_->is_sound(place.sample, encoded_file(field))) return buffers.file.reset();
  buffers.part.whole = {buffers.file->height, buffers.file->width, 3};
  buffers.part.fields.assign(stored_.size(), std::nullopt);
  buffers.part.elsewhere.assign(stored_.size(), false);
  buffers.part.elsewhere[route_.field()] = true;
}

bool SampleSteps::decode_part(std::size_t field, const DecodeOptions& options,
                              SampleBuffers& buffers) const {
  const FieldKind kind = stored_[field].kind;
  if (kind != FieldKind::image || !first_->touches(kind)) return false;
  Field& image = buffers.sample.fields[field];
  const Shape& whole = buffers.part.whole;
  const Shape shape = image_shape(encoded_file(image));
  if (shape[0] != whole[0] || shape[1] != whole[1]) return false;
  std::optional<Window>& held = buffers.part.fields[field];
  held = decode_rgb_window(encoded_file(image), options, buffers.part.wanted, buffers.spare[field]);
  if (held) std::swap(image.array, buffers.spare[field]);
  return held.has_value();
}

std::size_t SampleSteps::decode(const SamplePosition& place, SampleBuffers& buffers,
                                bool all_of_it) const {
  find_file(place, buffers);
  if (!all_of_it && !buffers.file) find_part(place, buffers);
  std::size_t bytes = 0;
  std::string warning;
  DecodeOptions options = decode_;
  options.warning = &warning;
  for (std::size_t i = 0; i < stored_.size(); ++i) {
    Field& field = buffers.sample.fields[i];
    if (!field.encoded) continue;
    if (buffers.file && i == route_.field()) continue;
    if (!buffers.has_part || !decode_part(i, options, buffers)) {
      dataset_->decode(stored_[i], options, field, buffers.spare[i]);
    }
    field.encoded = false;
    bytes += field.array.view().bytes();
  }
  if (!warning.empty()) tolerated_.add(*dataset_, place.sample, warning);
  return bytes;
}

std::size_t SampleSteps::transform(std::size_t index, const SamplePosition& place,
                                   SampleBuffers& buffers) const {
  const AnyOp& op = transforms_[index].op;
  const bool is_part = buffers.file ? op.touches(FieldKind::image) : index == 0 && buffers.has_part;
  op.apply(random_key(seed_, key_numbers_[index], place), stored_, buffers.sample, buffers.spare,
           buffers.scratch, is_part ? &buffers.part : nullptr);
  if (buffers.file && is_part)
    buffers.part.whole =
        op.output({{}, FieldKind::image, DType::uint8, buffers.part.whole, 0}).shape;
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < stored_.size(); ++i) {
    const bool is_file = buffers.file && i == route_.field();
    if (is_file || !op.touches(stored_[i].kind)) continue;
    bytes += buffers.sample.fields[i].array.view().bytes();
  }
  return bytes;
}

void SampleSteps::throw_named(std::size_t step, const SamplePosition& place) const {
  const std::string message =
      "step '" + names_[step] + "' of sample " + std::to_string(place.sample) + " (" +
      name_in(*dataset_, place.sample) + ", epoch " + std::to_string(place.epoch) + ", batch " +
      std::to_string(place.batch) + "): " + message_of_current_exception();
  const bool is_transform = step >= kFirstTransform && step < collate_step();
  if (!current_exception_is_the_samples(is_transform)) throw Error(message);
  throw BadSample(message);
}

}  // namespace slipstream
