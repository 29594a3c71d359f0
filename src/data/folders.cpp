#include "data/folders.h"

#include <algorithm>
#include <cctype>
#include <system_error>

#include "slipstream/error.h"

namespace slipstream {

namespace fs = std::filesystem;

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

std::vector<fs::path> list_folder(const fs::path& dir) {
  std::vector<fs::path> paths;
  std::error_code error;
  fs::directory_iterator it(dir, error);
  for (; !error && it != fs::directory_iterator(); it.increment(error)) {
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
  return extension == ".jpg" || extension == ".jpeg" || extension == ".png";
}

void Complaint::add(const std::string& name) {
  constexpr std::size_t kExamples = 3;
  if (count_ < kExamples) examples_ += (count_ > 0 ? ", '" : "'") + name + "'";
  if (count_ == kExamples) examples_ += ", ...";
  ++count_;
}

std::string Complaint::text() const {
  return count_ == 0 ? "" : "\n  " + std::to_string(count_) + " " + what_ + ": " + examples_;
}

}  // namespace slipstream
