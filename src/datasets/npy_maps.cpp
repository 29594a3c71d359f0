#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "datasets/array_form.h"
#include "datasets/class_names.h"
#include "datasets/identity.h"
#include "datasets/npy_header.h"
#include "datasets/stamped_file.h"
#include "slipstream/core/error.h"
#include "slipstream/datasets/datasets.h"

namespace slipstream {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kLabelsAtOnce = 4096;

/// An array file. It is read instead of mapped, because shortening a mapped file would kill the
/// process (SIGBUS), and the values are copied in any case.
struct Column {
  fs::path path;
  std::unique_ptr<const StampedFile> file;
  std::uint64_t data_at = 0;
  NpyForm form;
};

class NpyMaps final : public Dataset {
 public:
  NpyMaps(std::vector<Column> columns, std::vector<FieldSpec> specs)
      : columns_(std::move(columns)),
        specs_(std::move(specs)),
        size_(static_cast<std::size_t>(columns_.front().form.shape[0])) {}

  std::size_t size() const override { return size_; }
  std::vector<FieldSpec> fields() const override { return specs_; }
  std::vector<std::string> remarks() const override {
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      if (specs_[i].name != "label" || specs_[i].kind != FieldKind::label) continue;
      if (const auto only = only_label(i)) return {one_class_remark(std::to_string(*only))};
    }
    return {};
  }
  std::string name(std::size_t index) const override {
    return columns_.front().path.string() + "[" + std::to_string(index) + "]";
  }
  std::uint64_t identity() const override {
    Identity identity;
    for (const Column& column : columns_) identity.add(column.path, column.file->stamp());
    return identity.value();
  }

  void read(std::size_t index, Sample& out) const override {
    ensure(index < size_, "a sample's index is below the size of its data set");
    out.fields.resize(columns_.size());
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      const MutableArray to = out.fields[i].array.reset(specs_[i].dtype, specs_[i].shape);
      out.fields[i].encoded = false;
      columns_[i].file->read(columns_[i].data_at + index * to.bytes(), {to.data, to.bytes()});
    }
  }

 private:
  /// Returns the class of all samples if there are several samples and they have one class.
  std::optional<std::int64_t> only_label(std::size_t field) const {
    if (size_ < 2) return std::nullopt;
    const std::size_t bytes = size_bytes(specs_[field].dtype);
    const auto read_part = [&](std::size_t begin, std::size_t count) {
      std::vector<std::byte> part(count * bytes);
      columns_[field].file->read(columns_[field].data_at + begin * bytes, part);
      return part;
    };
    const std::vector<std::byte> first = read_part(0, 1);
    for (std::size_t begin = 1; begin < size_; begin += kLabelsAtOnce) {
      const std::vector<std::byte> part = read_part(begin, std::min(kLabelsAtOnce, size_ - begin));
      for (auto at = part.begin(); at != part.end(); at += static_cast<std::ptrdiff_t>(bytes))
        if (!std::equal(first.begin(), first.end(), at)) return std::nullopt;
    }
    std::int64_t label = 0;
    // Class indices are not negative, so the high bytes are 0.
    std::memcpy(&label, first.data(), bytes);
    return label;
  }

  std::vector<Column> columns_;
  std::vector<FieldSpec> specs_;
  std::size_t size_;
};

Column open(const fs::path& path) {
  Column column;
  column.path = path;
  column.file = std::make_unique<StampedFile>(path);
  const std::uint64_t bytes = column.file->size();
  std::vector<std::byte> start(std::min<std::uint64_t>(kMaxNpyHeader, bytes));
  column.file->read(0, start);
  try {
    const NpyHeader header = parse_npy_header(start);
    column.form = npy_form(header);
    column.data_at = header.data_at;
    const Shape& shape = column.form.shape;
    // Such an array has no bytes, so any number of samples would match the size of the file.
    if (shape.rank > 0 && shape[0] > 0 && shape.elements() == 0) {
      throw Error("its shape " + to_string(shape) +
                  " has samples without values; save an array with values for each sample");
    }
    const std::uint64_t expected =
        header.data_at + column.form.shape.elements() * size_bytes(column.form.dtype);
    if (bytes != expected) {
      throw Error("it has " + std::to_string(bytes) + " bytes, but its header says " +
                  std::to_string(expected) + (bytes < expected ? ": it was cut short" : "") +
                  "; copy or save it again, one array per file");
    }
  } catch (const Error& error) {
    throw Error("'" + path.string() + "': " + error.what());
  }
  return column;
}

}  // namespace

std::shared_ptr<const Dataset> npy_maps(const std::vector<NpyField>& fields) {
  std::vector<Column> columns;
  std::vector<ArrayForm> forms;
  std::vector<std::string> problems;
  for (const NpyField& field : fields) {
    try {
      columns.push_back(open(field.file));
      const NpyForm& form = columns.back().form;
      forms.push_back({field.name, field.kind, field.classes, form.dtype, form.shape,
                       "'" + field.file.string() + "'"});
    } catch (const Error& error) {
      problems.emplace_back(error.what());
    }
  }
  std::vector<FieldSpec> specs;
  if (!forms.empty() || fields.empty()) specs = sample_specs(forms, problems);
  refuse(problems);
  return std::make_shared<NpyMaps>(std::move(columns), std::move(specs));
}

}  // namespace slipstream
