#pragma once

#include <cerrno>
#include <filesystem>
#include <string>
#include <system_error>

#include "core/plain_message.h"
#include "slipstream/core/error.h"

namespace slipstream {

/// The storage changed or failed during a run. That is not the fault of one sample, so it is never
/// skipped.
class StorageError : public Error {
 public:
  using Error::Error;
};

/// Throws the exception for the errno of a file operation: std::system_error if descriptors or
/// memory ran out, StorageError if the storage failed, Error if a file is not accessible.
[[noreturn]] inline void throw_errno(const std::string& what, int error) {
  const std::string message = what + ": " + errno_message(error);
  if (error == EMFILE || error == ENFILE)
    throw std::system_error(error, std::generic_category(),
                            what + " (raise the limit of open files, ulimit -n)");
  if (error == ENOMEM) throw std::system_error(error, std::generic_category(), what);
  if (error == EIO || error == ESTALE || error == ETIMEDOUT) throw StorageError(message);
  throw Error(message);
}

[[noreturn]] inline void throw_errno(const char* what, const std::filesystem::path& path,
                                     int error) {
  throw_errno(std::string(what) + " '" + path.string() + "'", error);
}

}  // namespace slipstream
