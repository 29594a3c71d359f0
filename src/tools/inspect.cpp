#include "tools/inspect.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <sstream>

#include "codecs/codec.h"
#include "core/number_text.h"
#include "core/parallel_for.h"
#include "core/sync.h"
#include "datasets/class_names.h"
#include "datasets/field_values.h"
#include "slipstream/core/error.h"

namespace slipstream {
namespace {

constexpr std::size_t kListedClasses = 16;

struct Buffers {
  Sample sample;
  HostArray spare;
};

std::string stored_as(const Field& field) {
  const ConstArray value = field.array.view();
  if (!field.encoded) return std::string(to_string(value.dtype));
  return std::string(to_string(image_format(as_bytes(value))));
}

template <typename T>
void add_classes(const ConstArray& value, std::set<std::int64_t>& classes) {
  const T* values = value.as<T>();
  T last = 0;
  for (std::size_t i = 0; i < value.shape.elements(); ++i) {
    // Adjacent pixels mostly have one class, and inserting into a set is slow.
    if (i > 0 && values[i] == last) continue;
    last = values[i];
    classes.insert(static_cast<std::int64_t>(last));
  }
}

std::set<std::int64_t> classes_in(const FieldSpec& spec, const ConstArray& value) {
  std::set<std::int64_t> classes;
  if (spec.kind != FieldKind::label && spec.kind != FieldKind::mask) return classes;
  if (value.dtype == DType::uint8) add_classes<std::uint8_t>(value, classes);
  if (value.dtype == DType::int32) add_classes<std::int32_t>(value, classes);
  if (value.dtype == DType::int64) add_classes<std::int64_t>(value, classes);
  return classes;
}

void check_classes(const FieldSpec& spec, const std::set<std::int64_t>& classes) {
  if (classes.empty()) return;
  const std::int64_t lowest = *classes.begin(), highest = *classes.rbegin();
  if (lowest < 0)
    throw Error("field '" + spec.name + "' holds class " + std::to_string(lowest) +
                "; class indices start at 0");
  if (spec.classes > 0 && highest >= spec.classes) throw Error(class_problem(spec, highest));
}

/// The contribution of one good sample to the summaries.
struct Part {
  std::string stored;
  std::uint64_t bytes = 0;
  bool is_transparent = false;
  Shape shape;
  std::set<std::int64_t> classes;
};

/// Returns the file of an image that may have transparent pixels; empty for any other.
std::vector<std::byte> translucent_file(const Dataset& dataset, const FieldSpec& spec,
                                        const Field& field) {
  if (!field.encoded || spec.kind != FieldKind::image || !dataset.decodes_by_default()) return {};
  const std::span<const std::byte> file = as_bytes(field.array.view());
  if (!may_be_transparent(file)) return {};
  return {file.begin(), file.end()};
}

/// Returns true if another background changes the pixels of `file`. An alpha channel alone does not
/// mean that any pixel is transparent.
bool is_seen_through(std::span<const std::byte> file, DecodeOptions decode,
                     const ConstArray& decoded) {
  decode.warning = nullptr;  // already reported when the file was decoded
  for (std::uint8_t& level : decode.background) level = static_cast<std::uint8_t>(~level);
  HostArray other;
  decode_rgb(file, decode, other);
  return !std::equal(decoded.data, decoded.data + decoded.bytes(), other.view().data);
}

Part inspect_part(const Dataset& dataset, const FieldSpec& spec, const DecodeOptions& decode,
                  Field& field, HostArray& spare) {
  Part part;
  part.stored = stored_as(field);
  part.bytes = field.array.view().bytes();
  const std::vector<std::byte> translucent = translucent_file(dataset, spec, field);
  if (field.encoded) dataset.decode(spec, decode, field, spare);
  field.encoded = false;
  if (!translucent.empty())
    part.is_transparent = is_seen_through(translucent, decode, field.array.view());
  part.shape = field.array.view().shape;
  part.classes = classes_in(spec, field.array.view());
  check_classes(spec, part.classes);
  return part;
}

/// Throws Error unless images have pixels and masks have the size of the first image.
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
  summary.transparent += part.is_transparent;
  for (std::int64_t number : part.classes) ++summary.classes[number];
  if (is_first) summary.smallest = summary.largest = part.shape;
  for (std::size_t i = 0; i < std::min(part.shape.rank, summary.largest.rank); ++i) {
    summary.smallest.dims[i] = std::min(summary.smallest[i], part.shape[i]);
    summary.largest.dims[i] = std::max(summary.largest[i], part.shape[i]);
  }
}

/// Adds a remark if all samples have one class, unless the data set already has that remark.
void add_one_class_remark(const FieldSummary& field, Inspection& found) {
  const bool is_label = field.spec.kind == FieldKind::label && field.spec.name == "label";
  if (!is_label || field.classes.size() != 1 ||
      found.inspected < std::max<std::size_t>(2, found.samples))
    return;
  const std::string remark =
      one_class_remark(name_of_class(field.classes.begin()->first, field.class_names));
  std::vector<std::string>& remarks = found.remarks;
  if (std::find(remarks.begin(), remarks.end(), remark) == remarks.end()) remarks.push_back(remark);
}

void add_transparency_remark(const FieldSummary& field, Inspection& found) {
  if (field.transparent == 0) return;
  found.remarks.push_back(
      format_count(field.transparent, "image") + " of '" + field.spec.name +
      (field.transparent == 1 ? "' has" : "' have") +
      " transparent pixels, which training composites over black: if that hides the content, train "
      "with --background white, or convert to arrays with that option (shards store such files "
      "unchanged, unless a transform changes them)");
}

void add_tolerated_remark(const std::vector<DamagedSample>& tolerated, Inspection& found) {
  if (tolerated.empty()) return;
  const auto first =
      std::min_element(tolerated.begin(), tolerated.end(),
                       [](const auto& a, const auto& b) { return a.sample < b.sample; });
  found.remarks.push_back("files of " + format_count(tolerated.size(), "sample") +
                          " have damage that decoders skip, which training tolerates unless "
                          "--decode strict is given; the first: sample " +
                          std::to_string(first->sample) + " (" + first->name +
                          "): " + first->message);
}

class Inspector {
 public:
  Inspector(const Dataset& dataset, const InspectOptions& options)
      : dataset_(dataset), options_(options), specs_(dataset.fields()) {
    result_.samples = dataset.size();
    for (const FieldSpec& spec : specs_) {
      FieldSummary& field = result_.fields.emplace_back();
      field.spec = spec;
      if (spec.name != "label") continue;
      field.class_names = dataset.class_names();
      if (spec.kind == FieldKind::label) result_.labels.assign(dataset.size(), -1);
    }
    result_.remarks = dataset.remarks();
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
    add_tolerated_remark(tolerated_, result_);
    for (const FieldSummary& field : result_.fields) {
      add_one_class_remark(field, result_);
      add_transparency_remark(field, result_);
    }
    return std::move(result_);
  }

 private:
  void take(std::size_t index, Buffers& buffers) {
    std::vector<Part> parts;
    std::optional<DamagedSample> damage;
    std::string warning;
    DecodeOptions decode = options_.decode;
    decode.warning = &warning;
    try {
      buffers.sample.fields.resize(specs_.size());
      for (Field& field : buffers.sample.fields) field.encoded = false;
      dataset_.read(index, buffers.sample);
      for (std::size_t k = 0; k < specs_.size(); ++k)
        parts.push_back(
            inspect_part(dataset_, specs_[k], decode, buffers.sample.fields[k], buffers.spare));
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
        add_good(index, parts);
      if (!damage && !warning.empty()) tolerated_.push_back({index, dataset_.name(index), warning});
    }
    if (options_.progress) options_.progress(done);
  }

  void add_good(std::size_t index, const std::vector<Part>& parts) SLIPSTREAM_REQUIRES(mutex_) {
    for (std::size_t k = 0; k < parts.size(); ++k) {
      add(parts[k], result_.fields[k]);
      const bool is_label = specs_[k].name == "label" && specs_[k].kind == FieldKind::label;
      if (is_label && parts[k].classes.size() == 1)
        result_.labels[index] = *parts[k].classes.begin();
    }
  }

  const Dataset& dataset_;
  const InspectOptions& options_;
  const std::vector<FieldSpec> specs_;
  Mutex mutex_;
  Inspection result_ SLIPSTREAM_GUARDED_BY(mutex_);
  std::vector<DamagedSample> tolerated_ SLIPSTREAM_GUARDED_BY(mutex_);
};

void print(const FieldSummary& field, std::ostream& out) {
  out << "field '" << printable_name(field.spec.name) << "':";
  const char* separator = " ";
  for (const auto& [form, count] : field.stored) {
    out << separator << count << " " << form;
    separator = ", ";
  }
  out << "; " << size_text(static_cast<double>(field.stored_bytes)) << "; ";
  if (field.smallest == field.largest)
    out << "shape " << to_string(field.largest);
  else
    out << "shapes " << to_string(field.smallest) << " to " << to_string(field.largest);
  out << "\n";
  if (field.classes.empty()) return;
  // Classes with names are listed even if no sample has them.
  std::map<std::int64_t, std::uint64_t> classes = field.classes;
  for (std::size_t k = 0; k < field.class_names.size(); ++k)
    classes.emplace(static_cast<std::int64_t>(k), 0);
  out << "  samples of each class:";
  std::size_t listed = 0;
  for (const auto& [number, count] : classes) {
    if (++listed > kListedClasses) break;
    out << (listed > 1 ? ", " : " ") << number;
    if (!field.class_names.empty())
      out << " '" << printable_name(name_of_class(number, field.class_names)) << "'";
    out << ": " << count;
  }
  if (classes.size() > kListedClasses)
    out << " and " << format_count(classes.size() - kListedClasses, "more class");
  out << "\n";
}

}  // namespace

Inspection inspect(const Dataset& dataset, const InspectOptions& options) {
  return Inspector(dataset, options).run();
}

std::string to_text(const Inspection& inspection) {
  std::ostringstream out;
  out << format_count(inspection.samples, "sample");
  if (inspection.inspected < inspection.samples)
    out << ", " << inspection.inspected << " inspected";
  out << ", " << inspection.damaged.size() << " bad\n";
  for (const FieldSummary& field : inspection.fields)
    if (!field.stored.empty()) print(field, out);
  const std::size_t listed = std::min(kListedSamples, inspection.damaged.size());
  for (std::size_t i = 0; i < listed; ++i)
    out << "bad: sample " << inspection.damaged[i].sample << " ("
        << printable_name(inspection.damaged[i].name)
        << "): " << printable_name(inspection.damaged[i].message) << "\n";
  if (inspection.damaged.size() > listed)
    out << "and " << format_count(inspection.damaged.size() - listed, "more bad sample") << "\n";
  for (const std::string& remark : inspection.remarks)
    out << "note: " << printable_name(remark) << "\n";
  return printable(out.str());
}

}  // namespace slipstream
