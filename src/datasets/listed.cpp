#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>
#include <map>
#include <set>
#include <utility>

#include "datasets/class_names.h"
#include "datasets/field_values.h"
#include "datasets/identity.h"
#include "datasets/list_rows.h"
#include "datasets/pax.h"
#include "slipstream/core/error.h"
#include "slipstream/datasets/datasets.h"

namespace slipstream {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kMostUndeclaredClasses = 1'000'000;

void read_encoded(const fs::path& path, Field& field) {
  read_file(path, field.array);
  field.encoded = true;
}

/// Samples with class labels. Paths are stored relative to the list's folder, which all samples
/// share.
class ListedLabels final : public LabeledDataset {
 public:
  ListedLabels(fs::path dir, std::vector<std::string> images, std::vector<std::int64_t> labels,
               std::vector<std::string> names, std::int64_t classes)
      : dir_(std::move(dir)),
        images_(std::move(images)),
        labels_(std::move(labels)),
        names_(std::move(names)),
        classes_(classes) {}

  std::size_t size() const override { return images_.size(); }
  bool decodes_by_default() const override { return true; }
  std::string name(std::size_t index) const override { return path(index).string(); }
  const std::vector<std::string>& class_names() const override { return names_; }
  std::int64_t label(std::size_t index) const override { return labels_.at(index); }
  std::vector<std::string> remarks() const override {
    if (std::adjacent_find(labels_.begin(), labels_.end(), std::not_equal_to<>()) != labels_.end())
      return {};
    return {one_class_remark(names_.empty() ? std::to_string(labels_.front())
                                            : names_.at(static_cast<std::size_t>(label(0))))};
  }
  std::vector<FieldSpec> fields() const override { return {image_field(), label_field(classes_)}; }

  void read(std::size_t index, Sample& out) const override {
    out.fields.resize(2);
    read_encoded(path(index), out.fields[0]);
    set_label(out.fields[1], label(index));
  }

 private:
  fs::path path(std::size_t index) const { return dir_ / images_.at(index); }

  fs::path dir_;
  std::vector<std::string> images_;
  std::vector<std::int64_t> labels_;
  std::vector<std::string> names_;
  std::int64_t classes_;
};

class ListedMasks final : public Dataset {
 public:
  ListedMasks(fs::path dir, std::vector<ListRow> rows, std::int64_t classes)
      : dir_(std::move(dir)), rows_(std::move(rows)), classes_(classes) {}

  std::size_t size() const override { return rows_.size(); }
  bool decodes_by_default() const override { return true; }
  std::string name(std::size_t index) const override { return path(index, 0).string(); }
  std::vector<FieldSpec> fields() const override {
    return {image_field(), mask_field("label", classes_)};
  }
  std::uint64_t identity() const override {
    Identity identity;
    identity.add(Dataset::identity());
    for (const ListRow& row : rows_) identity.add(row.values[1]);
    return identity.value();
  }

  void read(std::size_t index, Sample& out) const override {
    out.fields.resize(2);
    for (std::size_t i = 0; i < 2; ++i) read_encoded(path(index, i), out.fields[i]);
    check_same_size(out.fields[0], out.fields[1], [&](FieldKind kind) {
      return path(index, kind == FieldKind::image ? 0 : 1).string();
    });
  }

 private:
  fs::path path(std::size_t index, std::size_t value) const {
    return dir_ / rows_.at(index).values[value];
  }

  fs::path dir_;
  std::vector<ListRow> rows_;
  std::int64_t classes_;
};

/// Returns the index of each class name.
std::map<std::string, std::int64_t> number_names(const std::vector<std::string>& names) {
  std::map<std::string, std::int64_t> numbers;
  for (const std::string& name : names) {
    numbers.emplace(name, static_cast<std::int64_t>(numbers.size()));
  }
  return numbers;
}

/// Returns true if the text is an integer in a form other than plain digits, such as "+2" or "2.0".
/// Such a label was probably meant as a number and must not become a class name.
bool is_odd_number(const std::string& text) {
  constexpr const char* kBlanks = " \t";
  const std::size_t first = text.find_first_not_of(kBlanks);
  if (first == std::string::npos) return false;
  const std::string inner = text.substr(first, text.find_last_not_of(kBlanks) + 1 - first);
  if (inner.find_first_not_of("+-.0123456789") != std::string::npos) return false;
  double number = 0;
  const char* const begin = inner.data() + (inner[0] == '+' ? 1 : 0);
  const char* const end = inner.data() + inner.size();
  const auto [stop, error] = std::from_chars(begin, end, number);
  return error == std::errc() && stop == end && number == std::floor(number);
}

std::vector<std::string> names_in(const fs::path& list, const std::vector<ListRow>& rows) {
  std::set<std::string> names;
  for (const ListRow& row : rows) {
    const std::string& text = row.values[1];
    if (decimal_number(text)) continue;
    if (is_odd_number(text))
      fail_at_line(
          list, row.line,
          "the label '" + printable_name(text) +
              "' is not a class index: write it without blanks, sign and fraction, such as 2");
    names.insert(text);
  }
  return {names.begin(), names.end()};
}

std::int64_t parse_list_label(const fs::path& list, const ListRow& row,
                              const std::map<std::string, std::int64_t>& names) {
  const std::string& text = row.values[1];
  if (text.empty()) fail_at_line(list, row.line, "the label is empty");
  if (const auto found = names.find(text); found != names.end()) return found->second;
  const auto number = decimal_number(text);
  if (!number)
    throw Refused("'" + list.string() + "', line " + std::to_string(row.line) + ": the class '" +
                  text + "' is not among the given classes");
  const auto limit =
      names.empty() ? kMostUndeclaredClasses : static_cast<std::int64_t>(names.size());
  if (static_cast<std::int64_t>(*number) >= limit) {
    fail_at_line(list, row.line,
                 "the class " + text + " is too large: " +
                     (names.empty() ? "numbers below " + std::to_string(limit) +
                                          " are accepted if no classes are given; number the "
                                          "classes from 0, or write their names"
                                    : "there are " + std::to_string(limit)));
  }
  return static_cast<std::int64_t>(*number);
}

std::shared_ptr<const Dataset> with_labels(const fs::path& list, const std::vector<ListRow>& rows,
                                           std::vector<std::string> names) {
  const bool is_given = !names.empty();
  if (!is_given) names = names_in(list, rows);
  const std::map<std::string, std::int64_t> numbers = number_names(names);
  std::vector<std::string> images;
  std::vector<std::int64_t> labels;
  std::int64_t classes = static_cast<std::int64_t>(names.size());
  for (const ListRow& row : rows) {
    if (!is_given && !names.empty() && decimal_number(row.values[1])) {
      fail_at_line(list, row.line,
                   "this label is a number, but others are names; give the classes, or use either "
                   "numbers or names");
    }
    images.push_back(row.values[0]);
    labels.push_back(parse_list_label(list, row, numbers));
    if (names.empty()) classes = std::max(classes, labels.back() + 1);
  }
  return std::make_shared<ListedLabels>(list.parent_path(), std::move(images), std::move(labels),
                                        std::move(names), classes);
}

void check_path(const fs::path& list, const ListRow& row, std::size_t value,
                const std::string& what) {
  const std::string& path = row.values[value];
  if (path.empty()) fail_at_line(list, row.line, what + " is empty");
  if (path.find('\0') != std::string::npos)
    fail_at_line(list, row.line,
                 what + " contains a NUL character, which a file name cannot contain");
}

void check(const ListOptions& options) {
  const std::string& second = options.mask.empty() ? options.label : options.mask;
  std::vector<std::string> problems;
  if (options.image.empty() || second.empty()) {
    problems.emplace_back(
        "a CSV or JSON list needs the names of two columns: image, and label or mask");
  } else if (options.image == second) {
    problems.push_back("one column, '" + second + "', cannot be both image and label or mask");
  }
  check_mask_classes("mask_classes", options.mask_classes, problems);
  if (std::set<std::string>(options.classes.begin(), options.classes.end()).size() !=
      options.classes.size()) {
    problems.emplace_back("two classes have one name");
  }
  refuse(problems);
}

}  // namespace

std::shared_ptr<const Dataset> listed(const fs::path& list, const ListOptions& options) {
  check(options);
  const bool has_masks = !options.mask.empty();
  std::vector<ListRow> rows =
      read_list(list, {options.image, has_masks ? options.mask : options.label});
  for (const ListRow& row : rows) {
    check_path(list, row, 0, "the image's path");
    if (has_masks) check_path(list, row, 1, "the mask's path");
  }
  if (!has_masks) return with_labels(list, rows, options.classes);
  return std::make_shared<ListedMasks>(list.parent_path(), std::move(rows), options.mask_classes);
}

}  // namespace slipstream
