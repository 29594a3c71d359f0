#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace slipstream {

/// Throws Refused with the reason unless a file can be written at `path`: its folder exists, a file
/// can be created in it, and an existing `path` is writable and not a folder. An existing file is
/// not changed. Call it for outputs named on a command line, before the work that produces them. A
/// pipe is not opened, because closing it would look like the end of the output to its reader.
void check_writable(const std::filesystem::path& path);

/// Returns the absolute path of the file that a write to `path` would change, after following
/// links. All names of one file give one path. Empty if the system cannot resolve it.
std::filesystem::path resolve_path(const std::filesystem::path& path);

/// Returns true if writing `b` would overwrite what was written to `a`: both are one path or two
/// names of one file, which is neither a device nor a pipe.
bool is_same_file(const std::filesystem::path& a, const std::filesystem::path& b);

/// Creates or replaces the file `path`. A new or regular file gets all of `bytes` or stays
/// unchanged, whenever the process ends: the bytes are written to a temporary file in the same
/// folder, which is then renamed. (Not synced: a power failure may lose them.) A link is followed
/// and its target replaced. Devices, pipes and open files (/dev/stdout) are written directly.
/// Throws Error with the path and the reason, such as a full disk or a pipe without a reader.
void write_file_atomically(const std::filesystem::path& path, std::span<const std::byte> bytes);
void write_file_atomically(const std::filesystem::path& path, std::string_view text);

/// Creates or replaces a file whose name the user did not choose, such as one in a folder that the
/// user named. Like write_file_atomically(), but a link of that name is replaced, not followed: it
/// may be part of an untrusted folder and point to any file of the user.
void write_own_file(const std::filesystem::path& path, std::span<const std::byte> bytes);
void write_own_file(const std::filesystem::path& path, std::string_view text);

/// Creates or replaces the regular file `path`. The file gets all of `parts`, one after another, or
/// stays unchanged, even if the machine loses power at any moment: the new file and its name are on
/// disk when this returns. Links are followed as in write_file_atomically(). Throws Error with the
/// path and the reason, also if `path` exists and is not a regular file.
void write_file_durably(const std::filesystem::path& path,
                        std::span<const std::span<const std::byte>> parts);

/// Flushes the folder's entries to disk, so that created, renamed or removed files survive a power
/// failure. Throws Error with the path and the reason.
void sync_folder(const std::filesystem::path& folder);

/// Appends all of `bytes` to the file `path`. If that fails the file is cut back to its old length,
/// unless the process ends meanwhile. Returns false if there is no such file; none is created.
/// Throws Error with the path and the reason, also for a link, which is not followed.
bool append_to_file(const std::filesystem::path& path, std::string_view bytes);

/// An output file that is checked before the work that produces its content.
class OutputFile {
 public:
  /// Throws Refused as check_writable() does, and for a pipe without a reader. A pipe stays open
  /// until write(), so that its reader waits. An empty `path` means no output.
  explicit OutputFile(std::filesystem::path path);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  /// Writes `text` as write_file_atomically() does. Call it at most once. Does nothing if there is
  /// no output.
  void write(std::string_view text);

 private:
  std::filesystem::path path_;
  int pipe_ = -1;
};

/// A file that grows line by line while a run continues. Readers see each line at once. If the file
/// is removed or renamed meanwhile, a new one is started.
class LineFile {
 public:
  /// Checks `path` as OutputFile does. An existing file is kept until the first write().
  explicit LineFile(std::filesystem::path path);
  ~LineFile();
  LineFile(const LineFile&) = delete;
  LineFile& operator=(const LineFile&) = delete;

  /// Appends `line` and a newline. Does nothing if there is no output. Throws Error with the path
  /// and the reason; a regular file then ends with the previous line. Does not wait for a pipe's
  /// reader: a full pipe is a failure.
  void write(std::string_view line);

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
};

/// Size limit for read_text() of files that people write, such as a chain or a plan.
inline constexpr std::size_t kMostWrittenBytes = std::size_t{16} << 20;

/// Returns the content of the regular file `path`. Throws Error with the path and the reason, also
/// for more than `most_bytes`, and for a pipe or a device, because it may never end.
std::string read_text(const std::filesystem::path& path,
                      std::size_t most_bytes = std::size_t{1} << 30);
/// Like read_text(), for a file that a command line or a declaration names: throws Refused.
std::string read_given_text(const std::filesystem::path& path,
                            std::size_t most_bytes = std::size_t{1} << 30);

}  // namespace slipstream
