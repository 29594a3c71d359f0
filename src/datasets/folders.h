#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace slipstream {

/// Throws Refused with `remedy` at the end unless `dir` is a folder (or a link to one).
void require_folder(const std::filesystem::path& dir, const std::string& remedy);

/// Lists the entries of `dir` except hidden ones (.NAME), sorted by name. Throws Refused if it
/// cannot be listed.
std::vector<std::filesystem::path> list_folder(const std::filesystem::path& dir);

/// Returns the extension with its dot in lower case, such as ".jpg", or "" if there is none.
std::string lower_extension(const std::filesystem::path& path);

/// The extensions of supported images.
inline constexpr const char* kImageNames = ".jpg, .jpeg, .jpe, .jfif, .png, .ppm or .pgm";

/// Returns true if the name has the extension of a supported image (kImageNames), in upper or lower
/// case.
bool is_image_name(const std::filesystem::path& path);

/// Counts files, or members of an archive, in image formats that are not supported.
class UnreadFormats {
 public:
  static constexpr std::array kExtensions = {".avif", ".bmp", ".gif", ".heic", ".heif", ".jp2",
                                             ".jxl",  ".pbm", ".tif", ".tiff", ".webp"};
  using Counts = std::array<std::uint64_t, kExtensions.size()>;

  /// Counts the file and returns true if its name has such an extension.
  bool add(const std::filesystem::path& path);
  void add(const Counts& counts);
  const Counts& counts() const { return counts_; }
  std::uint64_t total() const;
  /// Formats the counts, such as "2 files are of formats that are not read (2 .webp): convert them
  /// to JPEG or PNG". Returns "" if there are none.
  std::string text(std::string_view thing = "file") const;
  /// Returns text() with the folder as an entry of Dataset::remarks(), or nothing if there are
  /// none.
  std::vector<std::string> remarks(const std::filesystem::path& dir) const;

 private:
  Counts counts_{};
};

/// Returns the paths, relative to `dir`, of the images in `top`, which is `dir` or a folder in it,
/// at any depth. They are sorted as torchvision does: by the path of their folder, then by name,
/// byte by byte. Links are followed; a folder that is reached twice counts once. Files in
/// unsupported formats are counted in `unread`. Throws Refused if a folder cannot be listed.
std::vector<std::string> images_below(const std::filesystem::path& dir,
                                      const std::filesystem::path& top, UnreadFormats& unread);

/// Collects names with the same problem, such as "2 images without a mask: 'a', 'b'". It counts all
/// and names the first few.
class NamedProblem {
 public:
  /// The text for one name and, if it differs, for several.
  explicit NamedProblem(const std::string& one) : NamedProblem(one, one) {}
  NamedProblem(std::string one, std::string many) : one_(std::move(one)), many_(std::move(many)) {}
  void add(const std::string& name);
  /// Returns the problem on its own line, or "" if there are no names.
  std::string text() const;

 private:
  std::string one_, many_;
  std::string examples_;
  std::size_t count_ = 0;
};

}  // namespace slipstream
