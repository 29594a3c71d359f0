#include "datasets/folders.h"

#include <sys/stat.h>

#include <algorithm>
#include <numeric>
#include <system_error>
#include <utility>

#include "core/number_text.h"
#include "core/text.h"
#include "datasets/scan_watch.h"
#include "slipstream/core/error.h"

namespace slipstream {

namespace fs = std::filesystem;

namespace {

class Walk {
 public:
  Walk(const fs::path& dir, bool has_hidden)
      : prefix_(dir.native().size() + (dir.native().ends_with('/') ? 0 : 1)),
        has_hidden_(has_hidden) {}

  std::vector<std::string> run(const fs::path& top) {
    visit(top);
    std::sort(found_.begin(), found_.end(),
              [](std::string_view a, std::string_view b) { return parts(a) < parts(b); });
    return std::move(found_);
  }

 private:
  using Identity = std::pair<::dev_t, ::ino_t>;

  /// Splits a path into its folder, without the last slash, and its name.
  static std::pair<std::string_view, std::string_view> parts(std::string_view path) {
    const std::size_t name = path.rfind('/') + 1;  // npos + 1 is 0
    return {path.substr(0, name == 0 ? 0 : name - 1), path.substr(name)};
  }

  // Device and inode identify a folder, whatever links lead to it. A folder inside itself is a loop
  // of links. The depth of recursion is limited by the length of a path (PATH_MAX).
  void visit(const fs::path& folder) {
    struct ::stat status {};
    // If stat() fails, list_whole_folder() reports the reason.
    const Identity identity = ::stat(folder.c_str(), &status) == 0
                                  ? Identity(status.st_dev, status.st_ino)
                                  : Identity(0, 0);
    if (std::find(around_.begin(), around_.end(), identity) != around_.end()) return;
    around_.push_back(identity);
    for (const fs::path& path : list_whole_folder(folder)) {
      std::error_code ignored;
      if (!fs::is_directory(path, ignored))
        found_.push_back(path.native().substr(prefix_));
      else if (has_hidden_ || !is_hidden(path))
        visit(path);
    }
    around_.pop_back();
  }

  std::size_t prefix_;
  bool has_hidden_;
  std::vector<std::string> found_;
  std::vector<Identity> around_;  ///< the folders that contain the current one, and that one
};

std::string describe_first(std::uint64_t count, const std::string& name) {
  return (count == 1 ? ": '" : ", the first '") + printable_name(name) + "'";
}

}  // namespace

std::vector<std::string> files_below(const fs::path& dir, const fs::path& top, bool has_hidden) {
  return Walk(dir, has_hidden).run(top);
}

std::vector<std::string> images_below(const fs::path& dir, const fs::path& top,
                                      SkippedFiles& skipped) {
  std::vector<std::string> paths = files_below(dir, top);
  const auto is_skipped = [&](const std::string& path) {
    if (is_image_name(path) && !is_hidden(path)) return false;
    skipped.add(path, path);
    return true;
  };
  // Not std::remove_if(), which may call its predicate in any order: the first name is shown.
  std::vector<std::string> images;
  for (std::string& path : paths) {
    if (!is_skipped(path)) images.push_back(std::move(path));
  }
  return images;
}

void require_folder(const fs::path& dir, const std::string& remedy) {
  std::error_code error;
  const fs::file_status status = fs::status(dir, error);
  if (fs::is_directory(status)) return;
  if (fs::exists(status)) throw Refused("'" + dir.string() + "' is not a folder; " + remedy);
  if (status.type() == fs::file_type::not_found) {
    throw Refused("no folder '" + dir.string() + "'; " + remedy);
  }
  throw Refused("cannot open folder '" + dir.string() + "': " + error.message() + "; " + remedy);
}

std::vector<fs::path> list_folder(const fs::path& dir) {
  std::vector<fs::path> paths = list_whole_folder(dir);
  std::erase_if(paths, is_hidden);
  return paths;
}

bool is_hidden(const fs::path& path) { return path.filename().native().starts_with('.'); }

std::vector<fs::path> list_whole_folder(const fs::path& dir) {
  std::vector<fs::path> paths;
  std::error_code error;
  fs::directory_iterator it(dir, error);
  for (; !error && it != fs::directory_iterator(); it.increment(error)) {
    ScanWatch::poll();
    paths.push_back(it->path());
  }
  if (error) throw Refused("cannot list '" + dir.string() + "': " + error.message());
  std::sort(paths.begin(), paths.end(),
            [](const fs::path& a, const fs::path& b) { return a.native() < b.native(); });
  return paths;
}

std::string lower_extension(const fs::path& path) { return lower_case(path.extension().string()); }

bool is_image_name(const fs::path& path) {
  const std::string extension = lower_extension(path);
  return std::any_of(kImageExtensions.begin(), kImageExtensions.end(),
                     [&](const ImageExtension& each) { return each.text == extension; });
}

bool UnreadFormats::add(const fs::path& path) {
  const auto found = std::find(kExtensions.begin(), kExtensions.end(), lower_extension(path));
  if (found == kExtensions.end()) return false;
  ++counts_[static_cast<std::size_t>(found - kExtensions.begin())];
  return true;
}

void UnreadFormats::add(const Counts& counts) {
  for (std::size_t i = 0; i < counts.size(); ++i) counts_[i] += counts[i];
}

std::uint64_t UnreadFormats::total() const {
  return std::accumulate(counts_.begin(), counts_.end(), std::uint64_t{0});
}

std::string UnreadFormats::text(std::string_view thing) const {
  const std::uint64_t all = total();
  if (all == 0) return "";
  std::string each;
  for (std::size_t i = 0; i < counts_.size(); ++i)
    if (counts_[i] > 0)
      each += (each.empty() ? "" : ", ") + std::to_string(counts_[i]) + " " + kExtensions[i];
  const bool is_one = all == 1;
  return format_count(all, thing) +
         (is_one ? " has a format that is not supported ("
                 : " have formats that are not supported (") +
         each + "): convert " + (is_one ? "it" : "them") + " to JPEG or PNG";
}

void SkippedFiles::Group::add(const std::string& name) {
  if (count++ == 0) first = name;
}

void SkippedFiles::add(const fs::path& path, const std::string& name) {
  if (is_hidden(path))
    hidden_.add(name);
  else if (!unread_.add(path))
    others_.add(name);
}

std::vector<std::string> SkippedFiles::remarks(const fs::path& dir) const {
  std::vector<std::string> remarks;
  const std::string start = "'" + dir.string() + "': ";
  if (unread_.total() > 0) remarks.push_back(start + unread_.text());
  if (others_.count > 0)
    remarks.push_back(start + format_count(others_.count, "file") + " skipped because of " +
                      (others_.count == 1 ? "its" : "their") + " extension" +
                      describe_first(others_.count, others_.first));
  if (hidden_.count > 0)
    remarks.push_back(start + format_count(hidden_.count, "hidden file") + " skipped" +
                      describe_first(hidden_.count, hidden_.first));
  return remarks;
}

void NamedProblem::add(const std::string& name) {
  constexpr std::size_t kExamples = 3;
  if (count_ < kExamples) examples_ += (count_ > 0 ? ", '" : "'") + printable_name(name) + "'";
  if (count_ == kExamples) examples_ += ", ...";
  ++count_;
}

std::string NamedProblem::text() const {
  return count_ == 0 ? ""
                     : "\n  " + std::to_string(count_) + " " + (count_ == 1 ? one_ : many_) + ": " +
                           examples_;
}

}  // namespace slipstream
