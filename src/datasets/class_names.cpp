#include "datasets/class_names.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <utility>

#include "core/files.h"
#include "core/json_fields.h"
#include "datasets/folders.h"
#include "datasets/forwarding_dataset.h"
#include "datasets/npy_manifest.h"
#include "slipstream/core/error.h"
#include "slipstream/datasets/datasets.h"

namespace slipstream {
namespace {

namespace fs = std::filesystem;

constexpr std::uintmax_t kMostBytesOfNames = std::uintmax_t{16} << 20;

class RenamedClasses final : public ForwardingDataset<> {
 public:
  RenamedClasses(std::shared_ptr<const Dataset> dataset, std::vector<FieldSpec> fields,
                 std::vector<std::string> names)
      : ForwardingDataset(std::move(dataset)),
        fields_(std::move(fields)),
        names_(std::move(names)) {}

  std::vector<FieldSpec> fields() const override { return fields_; }
  const std::vector<std::string>& class_names() const override { return names_; }
  std::vector<std::string> remarks() const override {
    std::vector<std::string> remarks = dataset_->remarks();
    for (std::string& remark : remarks)
      for (std::size_t k = 0; k < names_.size(); ++k)
        if (remark == one_class_remark(std::to_string(k))) remark = one_class_remark(names_[k]);
    return remarks;
  }

 private:
  std::vector<FieldSpec> fields_;
  std::vector<std::string> names_;
};

bool is_text(const fs::path& path) {
  constexpr std::array kDataSets = {".csv", ".jsonl", ".tar", ".npy"};
  std::error_code failed;
  return !fs::is_directory(path, failed) &&
         std::find(kDataSets.begin(), kDataSets.end(), lower_extension(path)) == kDataSets.end();
}

std::vector<std::string> read_lines(const fs::path& path) {
  std::error_code failed;
  if (!fs::exists(path, failed)) throw Refused("no class list '" + path.string() + "'");
  if (!fs::is_regular_file(path, failed))
    throw Refused("the class list '" + path.string() + "' is not a regular file");
  if (fs::file_size(path, failed) > kMostBytesOfNames)
    throw Refused("the class list '" + path.string() +
                  "' has more than 16 MiB: it must contain only one name per line");
  std::vector<std::string> names;
  std::istringstream text(read_text(path));
  for (std::string line; std::getline(text, line);) {
    if (line.ends_with('\r')) line.pop_back();
    names.push_back(line);
  }
  // Editors add a line end or blank lines at the end of a file.
  while (!names.empty() && names.back().empty()) names.pop_back();
  return names;
}

void check_names(const fs::path& path, const std::vector<std::string>& names) {
  const std::string what = "the class list '" + path.string() + "' ";
  const auto refuse = [&](const std::string& why, std::size_t k) {
    throw Refused(what + why + " in line " + std::to_string(k + 1));
  };
  std::set<std::string> known;
  for (std::size_t k = 0; k < names.size(); ++k) {
    if (names[k].empty()) refuse("has no name", k);
    if (names[k].find('\0') != std::string::npos)
      refuse("is not text: it contains a NUL character", k);
    if (!known.insert(names[k]).second)
      refuse("has '" + printable_name(names[k]) + "' twice, again", k);
  }
  if (names.empty()) throw Refused(what + "is empty: write one name per line");
}

/// Compares names after printable(), because manifests store them in that form.
bool is_same(const std::string& a, const std::string& b) { return printable(a) == printable(b); }

/// Returns true if the classes in `known` have the same indices in `names`.
bool begins_with(const std::vector<std::string>& names, const std::vector<std::string>& known) {
  return known.size() <= names.size() &&
         std::equal(known.begin(), known.end(), names.begin(), is_same);
}

}  // namespace

std::string difference_of_names(const std::vector<std::string>& names,
                                const std::vector<std::string>& known) {
  for (std::size_t k = 0; k < std::min(names.size(), known.size()); ++k) {
    if (is_same(names[k], known[k])) continue;
    return "class " + std::to_string(k) + " is '" + printable_name(names[k]) + "', not '" +
           printable_name(known[k]) + "'";
  }
  if (names.size() == known.size()) return "";
  const bool is_more = names.size() > known.size();
  const std::size_t k = std::min(names.size(), known.size());
  return "class " + std::to_string(k) + ", '" + printable_name((is_more ? names : known)[k]) +
         "', is " + (is_more ? "one too many" : "missing");
}

std::string name_of_class(std::int64_t number, const std::vector<std::string>& names) {
  const auto index = static_cast<std::size_t>(number);
  return index < names.size() ? names[index] : std::to_string(number);
}

std::string one_class_remark(const std::string& name) {
  return "all samples are of one class, '" + printable_name(name) +
         "': there is nothing to classify; a data set for classification is a folder with one "
         "folder of images for each class, or a CSV or JSON list with two labels or more";
}

std::vector<std::string> manifest_class_names(const fs::path& dir) {
  std::error_code failed;
  if (!fs::is_regular_file(manifest_path(dir), failed)) return {};
  const auto json = json::parsed_or_discarded(read_text(manifest_path(dir)));
  const json::Json::json_pointer at("/settings/class_names");
  std::vector<std::string> names;
  if (!json.contains(at) || !json.at(at).is_array()) return names;
  for (const auto& name : json.at(at)) {
    if (!name.is_string())
      throw Error("'" + manifest_path(dir).string() + "' is damaged: a class's name is not text");
    names.push_back(name.get<std::string>());
  }
  return names;
}

std::shared_ptr<const Dataset> with_class_names(std::shared_ptr<const Dataset> dataset,
                                                const std::vector<std::string>& names,
                                                const fs::path& path) {
  if (names.empty()) return dataset;
  const std::vector<std::string>& known = dataset->class_names();
  if (!begins_with(names, known))
    throw Refused("'" + path.string() + "' has other class indices than the given list: " +
                  difference_of_names(known, names) + "; convert the data again with that list");
  std::vector<FieldSpec> fields = dataset->fields();
  const auto label = std::find_if(fields.begin(), fields.end(), [](const FieldSpec& field) {
    return field.name == "label" &&
           (field.kind == FieldKind::label || field.kind == FieldKind::mask);
  });
  if (label == fields.end())
    throw Refused("'" + path.string() + "' has no field 'label' whose classes could be named");
  const auto count = static_cast<std::int64_t>(names.size());
  if (label->classes > count)
    throw Refused("'" + path.string() + "' has " + std::to_string(label->classes) +
                  " classes, but the given list has " + std::to_string(count));
  label->classes = count;
  return std::make_shared<RenamedClasses>(std::move(dataset), std::move(fields), names);
}

std::vector<std::string> class_names_from(const fs::path& path) {
  std::vector<std::string> names;
  if (is_text(path)) {
    names = read_lines(path);
    check_names(path, names);
    return names;
  }
  std::error_code failed;
  if (fs::is_directory(path, failed)) names = manifest_class_names(path);
  if (names.empty()) names = open_dataset(path)->class_names();
  if (names.empty())
    throw Refused("the data set '" + path.string() +
                  "' has no class names: give a folder of class folders, a CSV or JSON list or "
                  "converted data set with class names, or a text file with one name per line");
  return names;
}

}  // namespace slipstream
