#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "codecs/formats.h"

namespace slipstream {

/// Throws Refused unless `dir` is a folder (or a link to one). The message ends with `remedy`.
void require_folder(const std::filesystem::path& dir, const std::string& remedy);

/// Lists the entries of `dir` except hidden ones (.NAME), sorted by name. Throws Refused if it
/// cannot be listed.
std::vector<std::filesystem::path> list_folder(const std::filesystem::path& dir);

/// Lists all entries of `dir`, also hidden ones, like list_folder().
std::vector<std::filesystem::path> list_whole_folder(const std::filesystem::path& dir);

/// Returns true for the name of a hidden file: .NAME.
bool is_hidden(const std::filesystem::path& path);

/// Returns the extension with its dot in lower case, such as ".jpg", or "" if there is none.
std::string lower_extension(const std::filesystem::path& path);

/// Returns true if the name has the extension of a supported image (kImageNames), in upper or lower
/// case.
bool is_image_name(const std::filesystem::path& path);

/// Counts files, or members of an archive, in image formats that are not supported.
class UnreadFormats {
 public:
  static constexpr std::array kExtensions = {".avif", ".heic", ".heif", ".jp2", ".jxl", ".pbm"};
  using Counts = std::array<std::uint64_t, kExtensions.size()>;

  /// Counts the file and returns true if its name has such an extension.
  bool add(const std::filesystem::path& path);
  void add(const Counts& counts);
  const Counts& counts() const { return counts_; }
  std::uint64_t total() const;
  /// Formats the counts, such as "2 files have formats that are not supported (2 .avif): convert
  /// them to JPEG or PNG". Returns "" if there are none.
  std::string text(std::string_view thing = "file") const;

 private:
  Counts counts_{};
};

/// Counts the files of a folder that are no samples, by the reason why.
class SkippedFiles {
 public:
  /// Counts a file that is no sample. `name` is how messages show it.
  void add(const std::filesystem::path& path, const std::string& name);

  /// The files in unsupported image formats.
  const UnreadFormats& unread() const { return unread_; }
  /// Returns a remark for each reason, with the folder, for Dataset::remarks().
  std::vector<std::string> remarks(const std::filesystem::path& dir) const;

 private:
  /// Files with one reason, and the name of the first one.
  struct Group {
    std::uint64_t count = 0;
    std::string first;
    void add(const std::string& name);
  };

  UnreadFormats unread_;
  Group hidden_, others_;
};

/// Returns the paths, relative to `dir`, of the files in `top`, which is `dir` or a folder in it,
/// at any depth. They are sorted as torchvision does: by the path of their folder, then by name,
/// byte by byte. Links are followed as in torchvision, so a folder that two links lead to is read
/// twice; but a link to a folder that contains it is not followed. Hidden folders are left out
/// unless `has_hidden`. Throws Refused if a folder cannot be listed.
std::vector<std::string> files_below(const std::filesystem::path& dir,
                                     const std::filesystem::path& top, bool has_hidden = false);

/// Returns those of files_below() that are supported images and not hidden, and counts the others.
std::vector<std::string> images_below(const std::filesystem::path& dir,
                                      const std::filesystem::path& top, SkippedFiles& skipped);

/// Collects names with the same problem, such as "2 images without a mask: 'a', 'b'". It counts all
/// and names the first few.
class NamedProblem {
 public:
  /// The text for one name, and the text for several.
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
