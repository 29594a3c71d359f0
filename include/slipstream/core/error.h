#pragma once

#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace slipstream {

/// Source position of a call, filled in by default arguments. (std::source_location does not
/// compile with clang 14 and libstdc++ 12.)
struct Where {
  const char* file;
  unsigned line;
  static constexpr Where here(const char* file = __builtin_FILE(),
                              unsigned line = __builtin_LINE()) {
    return {file, line};
  }
};

/// Escapes everything in `text` that a terminal could interpret as a command: control characters
/// (C0 except newline and tab, DEL, C1) and bytes that are not valid UTF-8 become escapes such as
/// "\x1b". Applying it twice changes nothing.
std::string printable(std::string_view text);

/// Like printable(), but also escapes newlines and tabs ("\n", "\t"). Use it for a name or value
/// that was read from a file, so that it cannot start a new line of output.
std::string printable_name(std::string_view text);

/// Base class of the library's errors: a run that failed. The message says what was wrong, where
/// (file, sample, stage, step) and what to do. The constructor applies printable(), so callers may
/// insert file and archive member names unescaped. The command line exits with code 1.
class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& message) : std::runtime_error(printable(message)) {}
};

/// An invalid command line, declaration or plan, found before any sample was read. The command line
/// exits with code 2.
class Refused : public Error {
 public:
  using Error::Error;
};

/// The device can no longer be used by this process, for example after a device-side assertion or
/// an uncorrectable memory error. Nothing hangs, but every later use of the device fails as well.
class DeviceLost : public Error {
 public:
  using Error::Error;
};

/// Throws Refused with all `problems`, one per line. Does nothing if there are none.
void refuse(const std::vector<std::string>& problems);

/// Throws std::logic_error with `where` and `promise` if `ok` is false. Checks invariants of the
/// library itself; unlike assert() it is active in every build.
void ensure(bool ok, std::string_view promise, Where where = Where::here());

/// Returns the member of `candidates` with the smallest edit distance to `name`, ignoring case. If
/// none is close enough to be a plausible typo, returns the first candidate that contains `name`,
/// provided that `name` has at least 4 characters, else "".
std::string nearest_name(std::string_view name, const std::vector<std::string>& candidates);

/// Formats a message such as "unknown KIND 'NAME'; did you mean 'X'? known: a, b, c".
std::string unknown_name(std::string_view kind, std::string_view name,
                         const std::vector<std::string>& candidates);

}  // namespace slipstream
