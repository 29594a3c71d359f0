#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "datasets/class_names.h"
#include "slipstream/core/error.h"
#include "tools/inspect.h"

namespace slipstream {
namespace {

using Samples = std::vector<std::size_t>;

struct Group {
  std::vector<std::string> captions;
  Samples samples;
};

/// Returns the good samples of each class, or all of them in one group.
std::vector<Group> groups_in(const Dataset& dataset, const Inspection& found) {
  std::set<std::size_t> bad;
  for (const DamagedSample& each : found.damaged) bad.insert(each.sample);
  std::map<std::int64_t, Samples> by_class;
  for (std::size_t i = 0; i < dataset.size(); ++i) {
    const std::int64_t label = found.labels.empty() ? 0 : found.labels[i];
    if (label >= 0 && !bad.contains(i)) by_class[label].push_back(i);
  }
  std::vector<Group> groups;
  for (auto& [number, samples] : by_class) {
    groups.push_back({{}, std::move(samples)});
    if (!found.labels.empty())
      groups.back().captions = {name_of_class(number, dataset.class_names())};
  }
  return groups;
}

/// Picks `count` evenly spaced elements.
/// REQUIRES: count <= all.size()
template <typename T>
std::vector<T> spread(const std::vector<T>& all, std::size_t count) {
  std::vector<T> some;
  for (std::size_t i = 0; i < count; ++i) some.push_back(all[i * all.size() / count]);
  return some;
}

/// Picks `count` samples in equal shares of the groups, as far as their sizes allow.
std::vector<Group> shared_out(std::vector<Group> groups, std::size_t count) {
  if (groups.size() > count) groups = spread(groups, count);
  std::vector<std::size_t> shares(groups.size());
  bool has_more = true;
  while (count > 0 && has_more) {
    has_more = false;
    for (std::size_t k = 0; k < groups.size() && count > 0; ++k) {
      if (shares[k] == groups[k].samples.size()) continue;
      ++shares[k];
      --count;
      has_more = true;
    }
  }
  for (std::size_t k = 0; k < groups.size(); ++k)
    groups[k].samples = spread(groups[k].samples, shares[k]);
  return groups;
}

class TileMaker {
 public:
  TileMaker(const Dataset& dataset, const ContactSheetOptions& options)
      : dataset_(dataset), options_(options), specs_(dataset.fields()) {
    image_ = std::find_if(specs_.begin(), specs_.end(),
                          [](const FieldSpec& spec) { return spec.kind == FieldKind::image; });
    sample_.fields.resize(specs_.size());
  }

  /// Returns no value for an image that cannot be shown.
  std::optional<HostArray> tile(std::size_t sample) {
    if (image_ == specs_.end()) return std::nullopt;
    for (Field& field : sample_.fields) field.encoded = false;
    dataset_.read(sample, sample_);
    Field& field = sample_.fields[static_cast<std::size_t>(image_ - specs_.begin())];
    if (field.encoded) dataset_.decode(*image_, {.background = options_.background}, field, spare_);
    const ConstArray pixels = field.array.view();
    if (pixels.dtype != DType::uint8 || pixels.shape.rank != 3 || pixels.shape[2] != 3)
      return std::nullopt;
    return make_tile(pixels, options_.cell - 2 * kTileBorder);
  }

 private:
  const Dataset& dataset_;
  const ContactSheetOptions& options_;
  const std::vector<FieldSpec> specs_;
  std::vector<FieldSpec>::const_iterator image_;
  Sample sample_;
  HostArray spare_;
};

}  // namespace

Sheet contact_sheet(const Dataset& dataset, const Inspection& found,
                    const ContactSheetOptions& options) {
  if (options.cell <= 2 * kTileBorder)
    throw Refused("cells of " + std::to_string(options.cell) +
                  " pixels are too small for an image");
  TileMaker maker(dataset, options);
  Sheet sheet{.cell = options.cell, .background = options.background};
  for (const Group& group : shared_out(groups_in(dataset, found), options.images)) {
    for (const std::size_t sample : group.samples)
      if (auto pixels = maker.tile(sample))
        sheet.tiles.push_back({std::move(*pixels), group.captions});
  }
  if (sheet.tiles.empty()) throw Error("there is no image of 8-bit RGB to put on a contact sheet");
  while (sheet.columns * sheet.columns < sheet.tiles.size()) ++sheet.columns;
  return sheet;
}

}  // namespace slipstream
