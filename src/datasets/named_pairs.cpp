#include "datasets/named_pairs.h"

#include <map>
#include <string>
#include <system_error>
#include <utility>

#include "datasets/folders.h"
#include "datasets/scan_watch.h"
#include "slipstream/core/error.h"

namespace slipstream {
namespace {

namespace fs = std::filesystem;

using FilesByName = std::multimap<std::string, fs::path>;

FilesByName list(const fs::path& dir, bool (*is_wanted)(const fs::path&), SkippedFiles& skipped) {
  FilesByName files;
  std::error_code ignored;
  for (const fs::path& path : list_whole_folder(dir)) {
    ScanWatch::poll();
    if (fs::is_directory(path, ignored)) continue;
    if (is_wanted(path) && !is_hidden(path))
      files.emplace(path.stem().string(), path);
    else
      skipped.add(path, (path.parent_path().filename() / path.filename()).string());
  }
  return files;
}

bool is_png_name(const fs::path& path) { return lower_extension(path) == ".png"; }

void find_duplicates(const FilesByName& files, NamedProblem& complaint) {
  for (auto it = files.begin(); it != files.end(); it = files.upper_bound(it->first)) {
    if (files.count(it->first) > 1) complaint.add(it->first);
  }
}

std::vector<NamedPair> pair_up(const fs::path& dir, const FilesByName& images,
                               const FilesByName& masks, const std::string& unread) {
  const auto named = [](const std::string& what) {
    return NamedProblem("name " + what, "names " + what);
  };
  NamedProblem no_mask = named("without masks/NAME.png");
  NamedProblem no_image = named(std::string("without images/NAME") + kImageNames);
  NamedProblem twice = named("with more than one image or mask");
  find_duplicates(images, twice);
  find_duplicates(masks, twice);
  std::vector<NamedPair> pairs;
  for (const auto& [name, image] : images) {
    const auto mask = masks.find(name);
    if (mask == masks.end()) {
      no_mask.add(name);
    } else {
      pairs.push_back({image, mask->second});
    }
  }
  for (const auto& [name, mask] : masks) {
    if (!images.contains(name)) no_image.add(name);
  }
  const std::string problems = no_mask.text() + no_image.text() + twice.text();
  if (problems.empty()) return pairs;
  throw Error("the data set '" + dir.string() +
              "' must have one image, images/NAME, and one mask, masks/NAME.png, for each NAME, "
              "but it has" +
              problems + "\nadd the missing files, or remove the other files of these names" +
              (unread.empty() ? "" : "\n" + unread));
}

}  // namespace

NamedPairs find_named_pairs(const fs::path& dir) {
  const std::string remedy =
      "a data set is a folder with images/ and masks/ (make-data writes one)";
  for (const fs::path& needed : {dir, dir / "images", dir / "masks"}) {
    require_folder(needed, remedy);
  }
  SkippedFiles skipped;
  const FilesByName images = list(dir / "images", is_image_name, skipped);
  const FilesByName masks = list(dir / "masks", is_png_name, skipped);
  const std::string text = skipped.unread().text();
  std::vector<NamedPair> pairs = pair_up(dir, images, masks, text);
  if (pairs.empty()) {
    throw Error("no images in '" + (dir / "images").string() + "'; it needs NAME" + kImageNames +
                ", and masks/NAME.png for each" + (text.empty() ? "" : "; " + text));
  }
  return {std::move(pairs), skipped.remarks(dir)};
}

}  // namespace slipstream
