#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace slipstream {

/// Throws Refused, ending in `remedy`, unless `dir` is a folder (or a link to one).
void require_folder(const std::filesystem::path& dir, const std::string& remedy);

/// What is in `dir` but hidden (.NAME), sorted by name. Throws Refused where it cannot be listed.
std::vector<std::filesystem::path> list_folder(const std::filesystem::path& dir);

/// With its dot, in lower case: ".jpg"; "" where there is none.
std::string lower_extension(const std::filesystem::path& path);

/// The names of images that are read.
inline constexpr const char* kImageNames = ".jpg, .jpeg, .jpe, .jfif, .png, .ppm or .pgm";

/// Whether the name is one of an image that is read (kImageNames), in either case.
bool is_image_name(const std::filesystem::path& path);

/// Counts files, or members of an archive, of image formats that are not read.
class UnreadFormats {
 public:
  static constexpr std::array kExtensions = {".avif", ".bmp", ".gif", ".heic", ".heif", ".jp2",
                                             ".jxl",  ".pbm", ".tif", ".tiff", ".webp"};
  using Counts = std::array<std::uint64_t, kExtensions.size()>;

  /// Whether the name says such a format, and the file was counted.
  bool add(const std::filesystem::path& path);
  void add(const Counts& counts);
  const Counts& counts() const { return counts_; }
  std::uint64_t total() const;
  /// "2 files are of formats that are not read (2 .webp): convert them to JPEG or PNG"; "" for
  /// none.
  std::string text(std::string_view thing = "file") const;
  /// text() as an entry of Dataset::remarks(), with the folder; none for none.
  std::vector<std::string> remarks(const std::filesystem::path& dir) const;

 private:
  Counts counts_{};
};

/// The paths below `dir` of the images in `top`, which is `dir` or a folder in it, however deep,
/// sorted as torchvision does: by the path of their folder, then by name, byte by byte. Links are
/// followed; a folder that is reached twice counts once. Files of formats that are not read are
/// counted. Throws Refused where a folder cannot be listed.
std::vector<std::string> images_below(const std::filesystem::path& dir,
                                      const std::filesystem::path& top, UnreadFormats& unread);

/// "2 images without a mask: 'a', 'b'": counts all, names the first few.
class NamedProblem {
 public:
  /// What is said of one, and of more where that differs.
  explicit NamedProblem(const std::string& one) : NamedProblem(one, one) {}
  NamedProblem(std::string one, std::string many) : one_(std::move(one)), many_(std::move(many)) {}
  void add(const std::string& name);
  /// On a line of its own; "" for none.
  std::string text() const;

 private:
  std::string one_, many_;
  std::string examples_;
  std::size_t count_ = 0;
};

}  // namespace slipstream
