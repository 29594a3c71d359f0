#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace slipstream {

/// Throws Refused, ending in `remedy`, unless `dir` is a folder (or a link to one).
void require_folder(const std::filesystem::path& dir, const std::string& remedy);

/// What is in `dir` but hidden (.NAME), sorted by name. Throws Refused where it cannot be listed.
std::vector<std::filesystem::path> list_folder(const std::filesystem::path& dir);

/// With its dot, in lower case: ".jpg"; "" where there is none.
std::string lower_extension(const std::filesystem::path& path);

/// Whether the name says JPEG or PNG, in either case.
bool is_image_name(const std::filesystem::path& path);

/// "2 images without a mask: 'a', 'b'": counts all, names the first few.
class Complaint {
 public:
  explicit Complaint(std::string what) : what_(std::move(what)) {}
  void add(const std::string& name);
  /// On a line of its own; "" for none.
  std::string text() const;

 private:
  std::string what_;
  std::string examples_;
  std::size_t count_ = 0;
};

}  // namespace slipstream
