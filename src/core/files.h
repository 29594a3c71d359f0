#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace slipstream {

/// Throws Refused, saying why, unless a file can be written at `path`: its folder exists, a file
/// can be made in it, and what has that name is not a folder and may be written. What is there is
/// left as it is. For outputs named on a command line, before the work whose result they shall
/// take. A pipe is not opened: its reader would take the end of that for the end of the output.
void check_writable(const std::filesystem::path& path);

/// Where what is written at `path` comes to lie, links followed: one path for all its names, whole;
/// empty where the system does not tell.
std::filesystem::path resolve_path(const std::filesystem::path& path);

/// Whether what is written at `a` would be lost to what is written at `b`: they are one place, or
/// two names of one file, which is neither a device nor a pipe.
bool is_same_file(const std::filesystem::path& a, const std::filesystem::path& b);

/// Makes or replaces the file `path`. A new name or a regular file gets all of `bytes` or stays
/// as it was, whenever the process ends: they are written beside it and then renamed. (Not synced:
/// a power cut may lose them.) A link stays, and what it names is replaced; devices, pipes and what
/// is open (/dev/stdout) are written through.
/// Throws Error with the path and the reason, such as a full disk or a pipe that nobody reads.
void write_file_atomically(const std::filesystem::path& path, std::span<const std::byte> bytes);
void write_file_atomically(const std::filesystem::path& path, std::string_view text);

/// Makes or replaces a file whose name the user did not choose, such as one in a folder that the
/// user named. As write_file_atomically(), but a link of that name is replaced and not followed: it
/// may have come with a foreign folder and name any file of the user.
void write_own_file(const std::filesystem::path& path, std::span<const std::byte> bytes);
void write_own_file(const std::filesystem::path& path, std::string_view text);

/// Makes or replaces the file `path` with `parts`, one behind the other: all of them, or the file
/// stays as it was, even if the machine loses power at any moment, for the new file and its name
/// are on the disk when this returns. Links are followed as above. Throws Error with the path and
/// the reason, and for what is there and is not a regular file.
void write_file_durably(const std::filesystem::path& path,
                        std::span<const std::span<const std::byte>> parts);

/// Puts the names in the folder on the disk: files that were made, renamed or removed are so even
/// if the machine loses power. Throws Error with the path and the reason.
void sync_folder(const std::filesystem::path& folder);

/// Adds `bytes` behind what the file `path` holds: all of them, or the file stays as it was, unless
/// the process ends meanwhile. Returns false where there is no such file: none is made. Throws
/// Error with the path and the reason, and for a link, which is not followed.
bool append_to_file(const std::filesystem::path& path, std::string_view bytes);

/// Where a result goes, named before the work that makes it.
class OutputFile {
 public:
  /// Throws Refused as check_writable does, and for a pipe that nobody reads; a pipe stays open
  /// until write(), so that its reader waits. An empty `path` is no output.
  explicit OutputFile(std::filesystem::path path);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  /// As write_file_atomically, at most once; nothing where there is no output.
  void write(std::string_view text);

 private:
  std::filesystem::path path_;
  int pipe_ = -1;
};

/// A file that grows line by line while work goes on: each line is there for its readers at once.
/// Where it is removed or renamed meanwhile, it is begun anew.
class LineFile {
 public:
  /// As OutputFile. What is there stays until the first line.
  explicit LineFile(std::filesystem::path path);
  ~LineFile();
  LineFile(const LineFile&) = delete;
  LineFile& operator=(const LineFile&) = delete;

  /// Adds `line` and a line end; nothing where there is no output. Throws Error with the path and
  /// the reason; a regular file then ends with the line before. Does not wait for a pipe's reader:
  /// a full pipe is a failure.
  void write(std::string_view line);

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
};

/// The most that read_text takes of a file that people write: a chain, a plan.
inline constexpr std::size_t kMostWrittenBytes = std::size_t{16} << 20;

/// All that the regular file `path` holds. Throws Error with the path and the reason; for a pipe or
/// a device, which may never end, and for more than `most_bytes`, too.
std::string read_text(const std::filesystem::path& path,
                      std::size_t most_bytes = std::size_t{1} << 30);
/// The same of a file that a command line or a declaration names: throws Refused.
std::string read_given_text(const std::filesystem::path& path,
                            std::size_t most_bytes = std::size_t{1} << 30);

}  // namespace slipstream
