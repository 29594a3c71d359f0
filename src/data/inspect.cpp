#include "slipstream/inspect.h"

#include <algorithm>
#include <optional>
#include <set>
#include <sstream>

#include "data/tiles.h"
#include "slipstream/error.h"
#include "slipstream/parallel_for.h"
#include "slipstream/sync.h"

namespace slipstream {
namespace {

constexpr std::size_t kListedClasses = 16;

struct Buffers {
  Sample sample;
  HostArray spare;
};

std::string stored_as(const Field& field) {
  const ConstArray value = field.array.view();
  if (!field.encoded) return std::string(name_of(value.dtype));
  switch (image_format(bytes_of(value))) {
    case ImageFormat::jpeg:
      return "JPEG";
    case ImageFormat::png:
      return "PNG";
    case ImageFormat::unknown:
      return "unknown";
  }
  return "unknown";
}

template <typename T>
void add_classes(const ConstArray& value, std::set<std::int64_t>& classes) {
  const T* values = value.as<T>();
  T last = 0;
  for (std::size_t i = 0; i < value.shape.elements(); ++i) {
    if (i > 0 && values[i] == last) continue;
    last = values[i];
    classes.insert(static_cast<std::int64_t>(last));
  }
}

std::set<std::int64_t> classes_in(const FieldSpec& spec, const ConstArray& value) {
  std::set<std::int64_t> classes;
  if (spec.kind != FieldKind::label && spec.kind != FieldKind::mask) return classes;
  if (value.dtype == DType::u8) add_classes<std::uint8_t>(value, classes);
  if (value.dtype == DType::i32) add_classes<std::int32_t>(value, classes);
  if (value.dtype == DType::i64) add_classes<std::int64_t>(value, classes);
  return classes;
}

void check_classes(const FieldSpec& spec, const std::set<std::int64_t>& classes) {
  if (classes.empty()) return;
  const std::int64_t lowest = *classes.begin(), highest = *classes.rbegin();
  const std::string what = "field '" + spec.name + "' holds class ";
  if (lowest < 0) throw Error(what + std::to_string(lowest) + "; classes are numbered from 0 on");
  if (spec.classes > 0 && highest >= spec.classes)
    throw Error(what + std::to_string(highest) + ", but there are " + std::to_string(spec.classes));
}

/// What one good sample adds to the summaries.
struct Part {
  std::string stored;
  std::uint64_t bytes = 0;
  Shape shape;
  std::set<std::int64_t> classes;
};

Part part_of(const Dataset& dataset, const FieldSpec& spec, const DecodeOptions& decode,
             Field& field, HostArray& spare) {
  Part part;
  part.stored = stored_as(field);
  part.bytes = field.array.view().bytes();
  if (field.encoded) dataset.decode(spec, decode, field, spare);
  field.encoded = false;
  part.shape = field.array.view().shape;
  part.classes = classes_in(spec, field.array.view());
  check_classes(spec, part.classes);
  return part;
}

/// That images have pixels, and masks the size of the first image.
void check_sizes(const std::vector<FieldSpec>& specs, const std::vector<Part>& parts) {
  const Shape* image = nullptr;
  for (std::size_t k = 0; k < specs.size(); ++k) {
    if (specs[k].kind != FieldKind::image) continue;
    if (image == nullptr) image = &parts[k].shape;
    if (parts[k].shape.elements() == 0)
      throw Error("image '" + specs[k].name + "' has no pixels: its shape is " +
                  to_string(parts[k].shape) + "; remove the sample");
  }
  for (std::size_t k = 0; k < specs.size() && image != nullptr; ++k) {
    const Shape& mask = parts[k].shape;
    if (specs[k].kind != FieldKind::mask || mask.rank < 2 || image->rank < 2) continue;
    if (mask[0] != (*image)[0] || mask[1] != (*image)[1])
      throw Error("mask '" + specs[k].name + "' is " + to_string(mask) + ", but its image is " +
                  to_string(*image) +
                  "; make them the same height and width (masks without interpolation)");
  }
}

void add(const Part& part, FieldSummary& summary) {
  const bool is_first = summary.stored.empty();
  ++summary.stored[part.stored];
  summary.stored_bytes += part.bytes;
  for (std::int64_t number : part.classes) ++summary.classes[number];
  if (is_first) summary.smallest = summary.largest = part.shape;
  for (std::size_t i = 0; i < std::min(part.shape.rank, summary.largest.rank); ++i) {
    summary.smallest.dims[i] = std::min(summary.smallest[i], part.shape[i]);
    summary.largest.dims[i] = std::max(summary.largest[i], part.shape[i]);
  }
}

class Inspector {
 public:
  Inspector(const Dataset& dataset, const InspectOptions& options)
      : dataset_(dataset), options_(options), specs_(dataset.fields()) {
    result_.samples = dataset.size();
    for (const FieldSpec& spec : specs_) result_.fields.emplace_back().spec = spec;
  }

  Inspection run() {
    parallel_for(dataset_.size(), options_.threads, [this]() -> ItemWork {
      return [this, buffers = Buffers()](std::size_t item) mutable {
        if (options_.stop && options_.stop()) return false;
        take(item, buffers);
        return true;
      };
    });
    const Lock lock(mutex_);
    std::sort(result_.damaged.begin(), result_.damaged.end(),
              [](const auto& a, const auto& b) { return a.sample < b.sample; });
    return std::move(result_);
  }

 private:
  void take(std::size_t index, Buffers& buffers) {
    std::vector<Part> parts;
    std::optional<DamagedSample> damage;
    try {
      buffers.sample.fields.resize(specs_.size());
      for (Field& field : buffers.sample.fields) field.encoded = false;
      dataset_.read(index, buffers.sample);
      for (std::size_t k = 0; k < specs_.size(); ++k)
        parts.push_back(
            part_of(dataset_, specs_[k], options_.decode, buffers.sample.fields[k], buffers.spare));
      check_sizes(specs_, parts);
    } catch (const Error& error) {
      damage = {index, dataset_.name(index), error.what()};
    }
    std::size_t done = 0;
    {
      const Lock lock(mutex_);
      done = ++result_.inspected;
      if (damage)
        result_.damaged.push_back(*damage);
      else
        for (std::size_t k = 0; k < parts.size(); ++k) add(parts[k], result_.fields[k]);
    }
    if (options_.progress) options_.progress(done);
  }

  const Dataset& dataset_;
  const InspectOptions& options_;
  const std::vector<FieldSpec> specs_;
  Mutex mutex_;
  Inspection result_ SLIPSTREAM_GUARDED_BY(mutex_);
};

std::string megabytes(std::uint64_t bytes) {
  std::ostringstream text;
  text.precision(3);
  text << static_cast<double>(bytes) / 1e6 << " MB";
  return text.str();
}

void print(const FieldSummary& field, std::ostream& out) {
  out << "field '" << field.spec.name << "':";
  const char* separator = " ";
  for (const auto& [form, count] : field.stored) {
    out << separator << count << " " << form;
    separator = ", ";
  }
  out << "; " << megabytes(field.stored_bytes) << "; ";
  if (field.smallest == field.largest)
    out << "shape " << to_string(field.largest);
  else
    out << "shapes " << to_string(field.smallest) << " to " << to_string(field.largest);
  out << "\n";
  if (field.classes.empty()) return;
  out << "  samples of each class:";
  std::size_t listed = 0;
  for (const auto& [number, count] : field.classes) {
    if (++listed > kListedClasses) break;
    out << " " << number << ": " << count;
  }
  if (field.classes.size() > kListedClasses)
    out << " and " << field.classes.size() - kListedClasses << " more classes";
  out << "\n";
}

}  // namespace

Inspection inspect(const Dataset& dataset, const InspectOptions& options) {
  return Inspector(dataset, options).run();
}

std::string to_text(const Inspection& inspection) {
  std::ostringstream out;
  out << inspection.samples << " samples";
  if (inspection.inspected < inspection.samples)
    out << ", " << inspection.inspected << " inspected";
  out << ", " << inspection.damaged.size() << " damaged\n";
  for (const FieldSummary& field : inspection.fields)
    if (!field.stored.empty()) print(field, out);
  const std::size_t listed = std::min(kListedSamples, inspection.damaged.size());
  for (std::size_t i = 0; i < listed; ++i)
    out << "damaged: sample " << inspection.damaged[i].sample << " (" << inspection.damaged[i].name
        << "): " << inspection.damaged[i].message << "\n";
  if (inspection.damaged.size() > listed)
    out << "and " << inspection.damaged.size() - listed << " more damaged samples\n";
  return printable(out.str());
}

std::vector<std::byte> contact_sheet(const Dataset& dataset, std::size_t images,
                                     std::int64_t cell) {
  const std::vector<FieldSpec> specs = dataset.fields();
  const auto is_image = [](const FieldSpec& spec) { return spec.kind == FieldKind::image; };
  const auto image = std::find_if(specs.begin(), specs.end(), is_image);
  std::vector<HostArray> tiles;
  Buffers buffers;
  buffers.sample.fields.resize(specs.size());
  for (std::size_t i = 0; image != specs.end() && i < dataset.size() && tiles.size() < images;
       ++i) {
    try {
      for (Field& field : buffers.sample.fields) field.encoded = false;
      dataset.read(i, buffers.sample);
      Field& field = buffers.sample.fields[static_cast<std::size_t>(image - specs.begin())];
      if (field.encoded) dataset.decode(*image, {}, field, buffers.spare);
      const ConstArray pixels = field.array.view();
      if (pixels.dtype != DType::u8 || pixels.shape.rank != 3 || pixels.shape[2] != 3) continue;
      tiles.push_back(tile_of(pixels, cell));
    } catch (const Error&) {
      continue;  // inspect() lists it
    }
  }
  if (tiles.empty()) throw Error("there is no image of 8-bit RGB to put on a contact sheet");
  std::size_t columns = 1;
  while (columns * columns < tiles.size()) ++columns;
  return png_of_tiles(tiles, columns, cell, std::byte{0});
}

}  // namespace slipstream
