#pragma once

#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace slipstream {

/// A source position that is filled in where a function is called. (std::source_location breaks
/// clang 14 with libstdc++ 12.)
struct Where {
  const char* file;
  unsigned line;
  static constexpr Where here(const char* file = __builtin_FILE(),
                              unsigned line = __builtin_LINE()) {
    return {file, line};
  }
};

/// `text` without what could command a terminal. Control characters (C0 but line ends and tabs,
/// DEL, C1) and bytes that are not UTF-8 become escapes such as "\x1b". A text that has been made
/// printable is returned unchanged.
std::string printable(std::string_view text);

/// printable() text in which line ends and tabs are escaped too ("\n", "\t"), for a name or a value
/// from a file: it cannot begin a line of its own.
std::string printable_name(std::string_view text);

/// A run that failed. The message says what was wrong, where (file, sample, stage, step) and what
/// to do. The constructor passes it through printable(), so callers may put the names of files and
/// archive members into it as they are. The command line exits with 1.
class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& message) : std::runtime_error(printable(message)) {}
};

/// A command line, declaration or plan that was refused before any sample was read. The command
/// line exits with 2.
class Refused : public Error {
 public:
  using Error::Error;
};

/// The device can no longer be used by this process (a device-side assertion, an uncorrectable
/// memory error). Nothing hangs, but every later use of the device fails too.
class DeviceLost : public Error {
 public:
  using Error::Error;
};

/// Throws Refused with all `problems`, one a line, unless there are none.
void refuse(const std::vector<std::string>& problems);

/// Throws std::logic_error, naming `where` and `promise`, unless `ok`. It checks what the library
/// itself promises, in every build.
void ensure(bool ok, std::string_view promise, Where where = Where::here());

/// The member of `candidates` nearest to `name` by edit distance, letters of either case alike.
/// Where none is near enough to be what was meant: the first candidate that contains `name`, if
/// that has at least 4 characters, else "".
std::string nearest_name(std::string_view name, const std::vector<std::string>& candidates);

/// A message of the form "unknown KIND 'NAME'; did you mean 'X'? known: a, b, c".
std::string unknown_name(std::string_view kind, std::string_view name,
                         const std::vector<std::string>& candidates);

}  // namespace slipstream
