#include "core/files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string>
#include <system_error>
#include <utility>

#include "core/file_bytes.h"
#include "core/plain_message.h"
#include "slipstream/core/error.h"

namespace slipstream {
namespace {

namespace fs = std::filesystem;

using Parts = std::span<const std::span<const std::byte>>;

constexpr int kMostLinks = 40;  ///< the kernel's own limit

std::string cannot_write(const fs::path& path, const std::string& why) {
  return "cannot write " + path.string() + ": " + why;
}

std::string cannot_write(const fs::path& path, int error) {
  std::error_code failed;
  if (error == ENXIO && fs::is_fifo(path, failed)) return cannot_write(path, "no process reads it");
  if (error == EAGAIN) return cannot_write(path, "the pipe is full because its reader is too slow");
  return cannot_write(path, errno_message(error));
}

fs::path parent_folder(const fs::path& path) {
  return path.has_parent_path() ? path.parent_path() : fs::path(".");
}

/// Returns true if `link` refers to a file that a process has open, as /proc/self/fd/1 does. Such a
/// link must not be resolved: its target may be deleted, or be a name such as "pipe:[123]".
bool is_of_open_file(const fs::path& link) {
  std::error_code failed;
  const fs::path folder = fs::canonical(parent_folder(link), failed);
  return !failed && folder.string().starts_with("/proc/");
}

/// Follows `path` through symbolic links to the path that they lead to.
fs::path link_target(const fs::path& path) {
  std::error_code failed;
  fs::path place = path;
  for (int links = 0; links < kMostLinks; ++links) {
    if (!fs::is_symlink(place, failed) || is_of_open_file(place)) return place;
    place = parent_folder(place) / fs::read_symlink(place, failed);
  }
  return path;  // a loop of links; opening it reports ELOOP
}

/// Returns true if `path` exists and is not a regular file: a device, a pipe or an open file cannot
/// be replaced by renaming another file. `path` is a result of link_target().
bool is_written_through(const fs::path& path) {
  std::error_code ignored;
  const fs::file_status status = fs::symlink_status(path, ignored);
  return fs::exists(status) && !fs::is_regular_file(status);
}

/// Returns 0, or the errno of the failure.
int write_all(int descriptor, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    // write() of at least one byte does not normally return 0. Reporting it as a full disk keeps
    // this loop from running indefinitely.
    if (written <= 0) return written < 0 ? errno : ENOSPC;
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
  return 0;
}

class File {
 public:
  explicit File(int descriptor) : descriptor_(descriptor) {}
  ~File() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  /// 0, or the errno of what failed.
  int write_and_close(Parts parts, bool is_synced = false) {
    for (const std::span<const std::byte> part : parts)
      if (const int error = write_all(descriptor_, part); error != 0) return error;
    // The content must be on disk before replace_file() renames the file. Otherwise a power failure
    // could leave the new name with an empty file.
    if (is_synced && ::fsync(descriptor_) != 0) return errno;
    // Some file systems report a full disk only at close(). After EINTR, Linux has closed the
    // descriptor.
    return ::close(std::exchange(descriptor_, -1)) == 0 || errno == EINTR ? 0 : errno;
  }

 private:
  int descriptor_;
};

/// Creates an empty file in `folder`, which the destructor removes unless rename_to() succeeded.
/// The folder is that of the target, because rename() works only inside one file system.
class TemporaryFile {
 public:
  explicit TemporaryFile(const fs::path& folder) {
    const std::string stem = ".slipstream-" + std::to_string(::getpid()) + "-";
    for (int i = 0; descriptor_ < 0; ++i) {
      path_ = folder / (stem + std::to_string(i) + ".tmp");
      // O_EXCL neither reuses a file of another process nor follows a link of that name.
      descriptor_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
      if (descriptor_ < 0 && errno != EEXIST && errno != EINTR) {
        error_ = errno;
        return;
      }
    }
    made_ = true;
  }
  ~TemporaryFile() {
    if (descriptor_ >= 0) ::close(descriptor_);
    if (made_) ::unlink(path_.c_str());
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  int error() const { return error_; }
  int release_descriptor() { return std::exchange(descriptor_, -1); }

  int rename_to(const fs::path& path) {
    std::error_code failed;
    const fs::file_status replaced = fs::symlink_status(path, failed);
    // The new file gets the permissions of the file that it replaces, which may be private.
    if (fs::is_regular_file(replaced)) fs::permissions(path_, replaced.permissions(), failed);
    if (::rename(path_.c_str(), path.c_str()) != 0) return errno;
    made_ = false;
    return 0;
  }

 private:
  fs::path path_;
  int descriptor_ = -1;
  int error_ = 0;
  bool made_ = false;
};

/// 0, or the errno of what failed.
int synced(const fs::path& folder) {
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return errno;
  // Some file systems cannot sync a folder and report EINVAL; that is not a failed write.
  const int error = ::fsync(descriptor) == 0 || errno == EINVAL ? 0 : errno;
  ::close(descriptor);
  return error;
}

/// Replaces the file `path`. Returns 0, or the errno of the failure. If `is_durable`, the file and
/// its name are on disk when this returns.
int replace_file(const fs::path& path, Parts parts, bool is_durable) {
  TemporaryFile temporary(parent_folder(path));
  if (temporary.error() != 0) return temporary.error();
  File file(temporary.release_descriptor());
  if (const int error = file.write_and_close(parts, is_durable); error != 0) return error;
  if (const int error = temporary.rename_to(path); error != 0) return error;
  // fsync() of the file does not write its name: the name is an entry of the folder.
  return is_durable ? synced(parent_folder(path)) : 0;
}

/// Creates or truncates a file and returns a non-blocking descriptor, or -1 and errno. O_NONBLOCK
/// makes the open() of a pipe without a reader fail with ENXIO instead of waiting for one.
int open_emptied(const fs::path& path, int flags) {
  return ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NONBLOCK | flags, 0666);
}

int open_for_lines(const fs::path& path) { return open_emptied(path, O_APPEND); }

/// Like open_emptied(), but later writes block. A pipe without a reader still fails at once.
int open_through(const fs::path& path) {
  const int descriptor = open_emptied(path, 0);
  if (descriptor >= 0) ::fcntl(descriptor, F_SETFL, ::fcntl(descriptor, F_GETFL) & ~O_NONBLOCK);
  return descriptor;
}

/// Returns true if `path` is no longer the regular file that was opened, because that was removed
/// or renamed (as log rotation does).
bool was_replaced(int descriptor, const fs::path& path) {
  struct stat opened {};
  struct stat there {};
  if (::fstat(descriptor, &opened) != 0 || !S_ISREG(opened.st_mode)) return false;
  return ::stat(path.c_str(), &there) != 0 || opened.st_dev != there.st_dev ||
         opened.st_ino != there.st_ino;
}

int write_through(const fs::path& path, Parts parts) {
  const int descriptor = open_through(path);
  if (descriptor < 0) return errno;
  return File(descriptor).write_and_close(parts);
}

/// Returns why no file can be written at `path`, or "" if it can.
std::string hindrance(const fs::path& path) {
  std::error_code failed;
  if (path.empty()) return "the name is empty";
  if (const fs::path place = link_target(path); place != path) {
    const std::string why = hindrance(place);
    return why.empty() ? "" : "it is a link to " + place.string() + ", and " + why;
  }
  const fs::path folder = parent_folder(path);
  if (fs::is_directory(path, failed)) return "it is a folder; name a file in it";
  if (!fs::is_directory(folder, failed))
    return "there is no folder " + folder.string() + "; make it first";
  if (::access(path.c_str(), W_OK) == 0) {
    if (is_written_through(path)) return "";
  } else if (errno != ENOENT) {
    return errno_message(errno);
  }
  // A new file is renamed to the path, so the folder must allow new files even if the file at the
  // path is writable. Creating one is the only reliable test (read-only mounts, quotas, ACLs).
  const TemporaryFile probe(folder);
  return probe.error() == 0 ? "" : errno_message(probe.error());
}

/// If `path` is a pipe, opens it with `open` and returns the descriptor, else -1. Throws Refused if
/// the path cannot be written.
int opened_pipe(const fs::path& path, int (*open)(const fs::path&)) {
  if (path.empty()) return -1;
  check_writable(path);
  std::error_code failed;
  if (!fs::is_fifo(path, failed)) return -1;
  const int descriptor = open(path);
  if (descriptor < 0) throw Refused(cannot_write(path, errno));
  return descriptor;
}

}  // namespace

void check_writable(const fs::path& path) {
  const std::string why = hindrance(path);
  if (!why.empty()) throw Refused(cannot_write(path, why));
}

fs::path resolve_path(const fs::path& path) {
  std::error_code failed;
  const fs::path whole = fs::absolute(link_target(path), failed);
  if (failed) return {};
  const fs::path place = fs::weakly_canonical(whole, failed);
  return failed ? fs::path() : place;
}

bool is_same_file(const fs::path& a, const fs::path& b) {
  std::error_code failed;
  const fs::path place = resolve_path(a), other = resolve_path(b);
  if (place.empty() || other.empty()) return false;
  if (place != other && !fs::equivalent(place, other, failed)) return false;
  const fs::file_status status = fs::status(place, failed);
  // A device or a pipe receives both outputs, so neither is lost.
  return !fs::exists(status) || fs::is_regular_file(status);
}

OutputFile::OutputFile(fs::path path)
    : path_(std::move(path)), pipe_(opened_pipe(path_, open_through)) {}

OutputFile::~OutputFile() {
  if (pipe_ >= 0) ::close(pipe_);
}

void OutputFile::write(std::string_view text) {
  if (path_.empty()) return;
  if (pipe_ < 0) return write_file_atomically(path_, text);
  File file(std::exchange(pipe_, -1));
  const std::span<const std::byte> part = std::as_bytes(std::span(text));
  const int error = file.write_and_close({&part, 1});
  if (error != 0) throw Error(cannot_write(path_, error));
}

LineFile::LineFile(fs::path path)
    : path_(std::move(path)), descriptor_(opened_pipe(path_, open_for_lines)) {}

LineFile::~LineFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void LineFile::write(std::string_view line) {
  if (path_.empty()) return;
  if (descriptor_ >= 0 && was_replaced(descriptor_, path_)) ::close(std::exchange(descriptor_, -1));
  if (descriptor_ < 0) descriptor_ = open_for_lines(path_);
  if (descriptor_ < 0) throw Error(cannot_write(path_, errno));
  // If a write fails halfway, the file is cut back to here, so that it holds only whole lines.
  const off_t end = ::lseek(descriptor_, 0, SEEK_END);
  const std::string text = std::string(line) + "\n";
  const int error = write_all(descriptor_, std::as_bytes(std::span(text)));
  if (error == 0) return;
  static_cast<void>(end >= 0 && ::ftruncate(descriptor_, end) == 0);
  throw Error(cannot_write(path_, error));
}

void write_file_atomically(const fs::path& path, std::span<const std::byte> bytes) {
  const fs::path place = link_target(path);
  const Parts parts(&bytes, 1);
  const int error =
      is_written_through(place) ? write_through(place, parts) : replace_file(place, parts, false);
  if (error != 0) throw Error(cannot_write(path, error));
}

void write_file_durably(const fs::path& path, std::span<const std::span<const std::byte>> parts) {
  const fs::path place = link_target(path);
  if (is_written_through(place)) throw Error(cannot_write(path, "it is not a regular file"));
  if (const int error = replace_file(place, parts, true); error != 0)
    throw Error(cannot_write(path, error));
}

void write_own_file(const fs::path& path, std::span<const std::byte> bytes) {
  const int error = replace_file(path, Parts(&bytes, 1), false);
  if (error != 0) throw Error(cannot_write(path, error));
}

void write_own_file(const fs::path& path, std::string_view text) {
  write_own_file(path, std::as_bytes(std::span(text)));
}

void sync_folder(const fs::path& folder) {
  if (const int error = synced(folder); error != 0) throw Error(cannot_write(folder, error));
}

void write_file_atomically(const fs::path& path, std::string_view text) {
  write_file_atomically(path, std::as_bytes(std::span(text)));
}

bool append_to_file(const fs::path& path, std::string_view bytes) {
  const int descriptor =
      // O_NOFOLLOW: the name may be in an untrusted folder and link to any file of the user.
      ::open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
  if (descriptor < 0 && errno == ENOENT) return false;
  if (descriptor < 0) throw Error(cannot_write(path, errno));
  const off_t end = ::lseek(descriptor, 0, SEEK_END);
  const std::span<const std::byte> part = std::as_bytes(std::span(bytes));
  const int error = File(descriptor).write_and_close({&part, 1});
  if (error == 0) return true;
  static_cast<void>(end >= 0 && ::truncate(path.c_str(), end) == 0);
  throw Error(cannot_write(path, error));
}

std::string read_text(const fs::path& path, std::size_t most_bytes) {
  const auto fail = [&](const std::string& why) {
    throw Error("cannot read " + path.string() + ": " + why);
  };
  const ReadableFile file(path);
  if (!file.is_open()) fail(errno_message(errno));
  struct stat opened {};
  if (::fstat(file.descriptor(), &opened) != 0) fail(errno_message(errno));
  if (S_ISDIR(opened.st_mode)) fail("it is a folder; name a file");
  if (!S_ISREG(opened.st_mode)) fail("it is a pipe or a device; write it to a file first");
  std::string text;
  std::array<char, 1 << 16> part{};
  // The size from fstat() is not used: files in /proc report 0, and a file may grow meanwhile.
  while (text.size() <= most_bytes) {
    const ssize_t got = ::read(file.descriptor(), part.data(), part.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail(errno_message(errno));
    if (got == 0) return text;
    text.append(part.data(), static_cast<std::size_t>(got));
  }
  fail("it has more than " + std::to_string(most_bytes) + " bytes, the limit for this file");
  return text;
}

std::string read_given_text(const fs::path& path, std::size_t most_bytes) try {
  return read_text(path, most_bytes);
} catch (const Error& error) {
  throw Refused(error.what());
}

}  // namespace slipstream
