#include <algorithm>
#include <utility>

#include "core/number_text.h"
#include "datasets/class_names.h"
#include "datasets/identity.h"
#include "slipstream/core/error.h"
#include "slipstream/datasets/datasets.h"

namespace slipstream {
namespace {

using Parts = std::vector<std::shared_ptr<const Dataset>>;

class ConcatDataset final : public Dataset {
 public:
  ConcatDataset(Parts parts, std::vector<FieldSpec> specs)
      : parts_(std::move(parts)), specs_(std::move(specs)) {
    for (const auto& part : parts_) {
      ends_.push_back(size() + part->size());
      if (names_.empty()) names_ = part->class_names();
    }
  }

  std::size_t size() const override { return ends_.empty() ? 0 : ends_.back(); }
  std::vector<FieldSpec> fields() const override { return specs_; }
  void read(std::size_t index, Sample& out) const override {
    const auto [part, inner] = find(index);
    part->read(inner, out);
  }
  void read_keyed(std::size_t index, const RandomKey& key, Sample& out) const override {
    const auto [part, inner] = find(index);
    part->read_keyed(inner, key, out);
  }
  void decode(const FieldSpec& spec, const DecodeOptions& options, Field& field,
              HostArray& spare) const override {
    parts_.front()->decode(spec, options, field, spare);
  }
  bool decodes_by_default() const override { return parts_.front()->decodes_by_default(); }
  const std::vector<std::string>& class_names() const override { return names_; }
  std::vector<std::string> remarks() const override {
    std::vector<std::string> all;
    for (const auto& part : parts_)
      for (std::string& remark : part->remarks()) all.push_back(std::move(remark));
    return all;
  }
  std::uint64_t identity() const override {
    Identity identity;
    for (const auto& part : parts_) identity.add(part->identity());
    return identity.value();
  }

  std::string name(std::size_t index) const override {
    const auto [part, inner] = find(index);
    return part->name(inner);
  }

 private:
  std::pair<const Dataset*, std::size_t> find(std::size_t index) const {
    ensure(index < size(), "a sample's index is below the size of its data set");
    const auto end = std::upper_bound(ends_.begin(), ends_.end(), index);
    const auto part = static_cast<std::size_t>(end - ends_.begin());
    return {parts_[part].get(), part == 0 ? index : index - ends_[part - 1]};
  }

  Parts parts_;
  std::vector<FieldSpec> specs_;
  std::vector<std::string> names_;
  std::vector<std::size_t> ends_;
};

std::string to_text(const FieldSpec& spec) {
  return "'" + spec.name + "' (" + std::string(to_string(spec.dtype)) + " of " +
         to_string(spec.shape) + ", " +
         format_count(static_cast<std::uint64_t>(spec.classes), "class") + ")";
}

/// Merges `other` into `known`. Returns why that is not possible, or "".
std::string merge(std::vector<FieldSpec>& known, const std::vector<FieldSpec>& other) {
  if (other.size() != known.size()) {
    return "has " + format_count(other.size(), "field") + ", not " + std::to_string(known.size());
  }
  for (std::size_t i = 0; i < known.size(); ++i) {
    FieldSpec& a = known[i];
    const FieldSpec& b = other[i];
    if (a.name != b.name || a.kind != b.kind || a.dtype != b.dtype || a.classes != b.classes ||
        a.shape.rank != b.shape.rank) {
      return "has field " + to_text(b) + ", not " + to_text(a);
    }
    for (std::size_t d = 0; d < a.shape.rank; ++d) {
      if (a.shape[d] != b.shape[d]) a.shape.dims[d] = -1;
    }
  }
  return "";
}

/// Compares all names with those of the first part that has names.
void check_names(const Parts& parts, std::vector<std::string>& problems) {
  const std::vector<std::string>* known = nullptr;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::vector<std::string>& names = parts[i]->class_names();
    if (names.empty()) continue;
    if (known == nullptr) known = &names;
    const std::string problem = difference_of_names(names, *known);
    if (!problem.empty())
      problems.push_back("data set " + std::to_string(i) +
                         " of those to concatenate has other class indices: " + problem);
  }
}

}  // namespace

std::shared_ptr<const Dataset> concat_dataset(Parts parts) {
  if (parts.empty()) throw Refused("nothing to concatenate: give at least one data set");
  if (std::find(parts.begin(), parts.end(), nullptr) != parts.end()) {
    throw Refused("a data set to concatenate is null");
  }
  std::vector<FieldSpec> specs = parts.front()->fields();
  std::vector<std::string> problems;
  for (std::size_t i = 1; i < parts.size(); ++i) {
    const std::string problem = merge(specs, parts[i]->fields());
    if (problem.empty()) continue;
    problems.push_back("data set " + std::to_string(i) + " of those to concatenate " + problem +
                       " as data set 0: all need the same");
  }
  check_names(parts, problems);
  refuse(problems);
  return std::make_shared<ConcatDataset>(std::move(parts), std::move(specs));
}

}  // namespace slipstream
