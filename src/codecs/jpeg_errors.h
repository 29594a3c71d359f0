#pragma once

#include <csetjmp>
#include <cstdio>
#include <cstdlib>
#include <string>

#include <jpeglib.h>

#include "slipstream/core/error.h"

// libjpeg reports by a callback that must not return, and an exception must not cross its frames:
// the callback jumps to guard(), which throws. No function that is jumped over owns anything.
namespace slipstream::jpeg {

struct Errors {
  jpeg_error_mgr manager;  // first: libjpeg hands it back as a pointer to Errors
  std::jmp_buf jump;
  char message[JMSG_LENGTH_MAX];
};

[[noreturn]] void fail(j_common_ptr info, const char* message);

/// Makes libjpeg report to `errors`; warnings that mean damage are errors, others are not printed.
void set_up(Errors& errors);

/// Runs `body`; what libjpeg reports is thrown as Error: "FAILED: MESSAGE; REMEDY".
template <typename Body>
void guard(Errors& errors, const char* failed, const char* remedy, Body body) {
  if (setjmp(errors.jump) != 0) {
    throw Error(std::string(failed) + ": " + errors.message + "; " + remedy);
  }
  body();
}

}  // namespace slipstream::jpeg
