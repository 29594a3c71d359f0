#include "cli/prediction_files.h"

#include <nlohmann/json.hpp>
#include <string_view>

#include "core/files.h"
#include "datasets/class_names.h"
#include "slipstream/codecs/image.h"
#include "slipstream/core/error.h"

namespace slipstream {
namespace {

namespace fs = std::filesystem;

/// Returns a path below the folder. A sample's name may contain ".." or begin with '/'.
fs::path prediction_path(const std::string& name) {
  fs::path place;
  for (const fs::path& part : fs::path(name).relative_path())
    if (part != ".." && part != ".") place /= part;
  if (place.empty()) place = "sample";
  for (const char* ending : {".jpg", ".jpeg", ".png", ".JPG", ".JPEG", ".PNG"})
    if (place.extension() == ending) return place.replace_extension(".png");
  return place += ".png";
}

}  // namespace

PredictionFiles::PredictionFiles(fs::path folder, const Dataset& dataset)
    : folder_(std::move(folder)), dataset_(dataset) {
  std::error_code failed;
  fs::create_directories(folder_, failed);
  if (failed) throw Refused("cannot make the folder " + folder_.string() + ": " + failed.message());
  if (!fs::is_empty(folder_, failed) || failed)
    throw Refused("the folder " + folder_.string() +
                  " is not empty: give a new one, so that predictions do not mix");
}

void PredictionFiles::add_mask(std::uint64_t sample, const ConstArray& mask) {
  const std::string name = dataset_.name(sample);
  fs::path place = prediction_path(name);
  if (!places_.insert(place.string()).second) {
    place = prediction_path(name + ".mask");  // if there are both a.png and a.jpg
    places_.insert(place.string());
  }
  const fs::path path = folder_ / place;
  std::error_code failed;
  fs::create_directories(path.parent_path(), failed);
  write_own_file(path, encode_png(mask));
  ++written_;
}

void PredictionFiles::add_classes(std::uint64_t sample,
                                  const std::vector<std::pair<std::int64_t, float>>& classes) {
  if (lines_ == nullptr) {
    const fs::path path = folder_ / "predictions.jsonl";
    write_own_file(path, std::string_view());  // replaces a link, which LineFile would follow
    lines_ = std::make_unique<LineFile>(path);
  }
  nlohmann::ordered_json line = {{"sample", dataset_.name(sample)},
                                 {"class", class_name(classes.front().first)},
                                 {"probability", classes.front().second}};
  for (const auto& [number, probability] : classes)
    line["classes"].push_back({{"class", class_name(number)}, {"probability", probability}});
  lines_->write(line.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
  ++written_;
}

std::string PredictionFiles::class_name(std::int64_t number) const {
  return name_of_class(number, dataset_.class_names());
}

}  // namespace slipstream
