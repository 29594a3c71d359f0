#pragma once

#include <csetjmp>
#include <cstdio>
#include <cstdlib>
#include <string>

#include <jpeglib.h>

#include "slipstream/core/error.h"

// libjpeg reports errors through a callback that must not return, and an exception must not pass
// through its C frames. So the callback jumps to guard(), which throws. No function that the jump
// skips owns anything, because longjmp() runs no destructors.
namespace slipstream::jpeg {

struct Errors {
  jpeg_error_mgr manager;  // first member: libjpeg's pointer to it is cast back to Errors
  std::jmp_buf jump;
  char message[JMSG_LENGTH_MAX];
  char warning[JMSG_LENGTH_MAX];  ///< the first warning, or empty
  bool refuses_warnings = false;
};

[[noreturn]] void fail(j_common_ptr info, const char* message);

/// Makes libjpeg report to `errors`. Warnings are stored, or treated as errors if
/// `refuses_warnings`.
void set_up(Errors& errors, bool refuses_warnings);

/// Runs `body`. Throws an error that libjpeg reports as Error: "FAILED: MESSAGE; REMEDY".
template <typename Body>
void guard(Errors& errors, const char* failed, const char* remedy, Body body) {
  if (setjmp(errors.jump) != 0) {
    throw Error(std::string(failed) + ": " + errors.message + "; " + remedy);
  }
  body();
}

/// Sets `warning`, unless it is null, to libjpeg's first warning, if there was one.
void report_warning(const Errors& errors, std::string* warning);

}  // namespace slipstream::jpeg
