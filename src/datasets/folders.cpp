#include "datasets/folders.h"

#include <sys/stat.h>

#include <algorithm>
#include <cctype>
#include <numeric>
#include <set>
#include <system_error>
#include <utility>

#include "core/number_text.h"
#include "datasets/scan_watch.h"
#include "slipstream/core/error.h"

namespace slipstream {

namespace fs = std::filesystem;

namespace {

class Walk {
 public:
  Walk(const fs::path& dir, UnreadFormats& unread)
      : prefix_(dir.native().size() + (dir.native().ends_with('/') ? 0 : 1)), unread_(unread) {}

  std::vector<std::string> run(const fs::path& top) {
    std::vector<fs::path> folders = {top};
    while (!folders.empty()) {
      const fs::path folder = std::move(folders.back());
      folders.pop_back();
      if (is_new(folder)) list(folder, folders);
    }
    std::sort(found_.begin(), found_.end(),
              [](std::string_view a, std::string_view b) { return parts(a) < parts(b); });
    return std::move(found_);
  }

 private:
  /// Splits a path into its folder, without the last slash, and its name.
  static std::pair<std::string_view, std::string_view> parts(std::string_view path) {
    const std::size_t name = path.rfind('/') + 1;  // npos + 1 is 0
    return {path.substr(0, name == 0 ? 0 : name - 1), path.substr(name)};
  }

  // Device and inode identify a folder whatever links lead to it, which also ends loops of links.
  bool is_new(const fs::path& folder) {
    struct ::stat status {};
    if (::stat(folder.c_str(), &status) != 0) return true;  // list_folder() reports the reason
    return visited_.emplace(status.st_dev, status.st_ino).second;
  }

  void list(const fs::path& folder, std::vector<fs::path>& folders) {
    const std::vector<fs::path> paths = list_folder(folder);
    // Reversed, because the stack of folders returns the last one first.
    for (auto path = paths.rbegin(); path != paths.rend(); ++path) {
      ScanWatch::poll();
      std::error_code ignored;
      if (fs::is_directory(*path, ignored)) {
        folders.push_back(*path);
      } else if (is_image_name(*path)) {
        found_.push_back(path->native().substr(prefix_));
      } else {
        unread_.add(*path);
      }
    }
  }

  std::size_t prefix_;
  UnreadFormats& unread_;
  std::vector<std::string> found_;
  std::set<std::pair<::dev_t, ::ino_t>> visited_;
};

}  // namespace

std::vector<std::string> images_below(const fs::path& dir, const fs::path& top,
                                      UnreadFormats& unread) {
  return Walk(dir, unread).run(top);
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
  std::vector<fs::path> paths;
  std::error_code error;
  fs::directory_iterator it(dir, error);
  for (; !error && it != fs::directory_iterator(); it.increment(error)) {
    ScanWatch::poll();
    if (it->path().filename().native().front() != '.') paths.push_back(it->path());
  }
  if (error) throw Refused("cannot list '" + dir.string() + "': " + error.message());
  std::sort(paths.begin(), paths.end(),
            [](const fs::path& a, const fs::path& b) { return a.native() < b.native(); });
  return paths;
}

std::string lower_extension(const fs::path& path) {
  std::string text = path.extension().string();
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

bool is_image_name(const fs::path& path) {
  const std::string extension = lower_extension(path);
  constexpr std::array kExtensions = {".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".ppm", ".pgm"};
  return std::find(kExtensions.begin(), kExtensions.end(), extension) != kExtensions.end();
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

std::vector<std::string> UnreadFormats::remarks(const fs::path& dir) const {
  if (total() == 0) return {};
  return {"'" + dir.string() + "': " + text()};
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
