#include "data/named_pairs.h"

#include <algorithm>
#include <cctype>
#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "slipstream/error.h"

namespace slipstream {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kExamples = 3;

using FilesByName = std::multimap<std::string, fs::path>;

std::string lower_extension(const fs::path& path) {
  std::string text = path.extension().string();
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

FilesByName list(const fs::path& dir, std::initializer_list<std::string_view> extensions) {
  FilesByName files;
  std::error_code error;
  fs::directory_iterator it(dir, error);
  for (; !error && it != fs::directory_iterator(); it.increment(error)) {
    const fs::path path = it->path();
    std::error_code ignored;
    if (path.filename().string().front() == '.' || it->is_directory(ignored)) continue;
    const std::string extension = lower_extension(path);
    if (std::find(extensions.begin(), extensions.end(), extension) == extensions.end()) continue;
    files.emplace(path.stem().string(), path);
  }
  if (error) throw Refused("cannot list '" + dir.string() + "': " + error.message());
  return files;
}

/// "2 images without a mask: 'a', 'b'"
class Complaint {
 public:
  explicit Complaint(std::string what) : what_(std::move(what)) {}
  void add(const std::string& name) {
    if (count_ < kExamples) examples_ += (count_ > 0 ? ", '" : "'") + name + "'";
    ++count_;
  }
  std::string text() const {
    if (count_ == 0) return "";
    const std::string more = count_ > kExamples ? ", ..." : "";
    return "\n  " + std::to_string(count_) + " " + what_ + ": " + examples_ + more;
  }

 private:
  std::string what_;
  std::string examples_;
  std::size_t count_ = 0;
};

void find_duplicates(const FilesByName& files, Complaint& complaint) {
  for (auto it = files.begin(); it != files.end(); it = files.upper_bound(it->first)) {
    if (files.count(it->first) > 1) complaint.add(it->first);
  }
}

std::vector<NamedPair> pair_up(const fs::path& dir, const FilesByName& images,
                               const FilesByName& masks) {
  Complaint no_mask("without masks/NAME.png");
  Complaint no_image("without images/NAME.jpg, .jpeg or .png");
  Complaint twice("with more than one image or mask");
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
  throw Error("the data set '" + dir.string() + "' needs one image and one mask for each NAME:" +
              problems + "\nadd what is missing, or remove what is left over");
}

void require_folder(const fs::path& dir, const std::string& remedy) {
  std::error_code error;
  const fs::file_status status = fs::status(dir, error);
  if (fs::is_directory(status)) return;
  if (fs::exists(status)) throw Refused("'" + dir.string() + "' is no folder; " + remedy);
  if (status.type() == fs::file_type::not_found) {
    throw Refused("no folder '" + dir.string() + "'; " + remedy);
  }
  throw Refused("cannot open folder '" + dir.string() + "': " + error.message() + "; " + remedy);
}

}  // namespace

std::vector<NamedPair> find_named_pairs(const fs::path& dir) {
  const std::string remedy =
      "a data set is a folder with images/ and masks/ (make-data writes one)";
  for (const fs::path& needed : {dir, dir / "images", dir / "masks"}) {
    require_folder(needed, remedy);
  }
  std::vector<NamedPair> pairs =
      pair_up(dir, list(dir / "images", {".jpg", ".jpeg", ".png"}), list(dir / "masks", {".png"}));
  if (pairs.empty()) {
    throw Error("no images in '" + (dir / "images").string() +
                "'; it needs NAME.jpg, .jpeg or "
                ".png, and masks/NAME.png for each");
  }
  return pairs;
}

}  // namespace slipstream
