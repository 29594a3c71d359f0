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
  char warning[JMSG_LENGTH_MAX];  ///< the first one; empty: none
  bool refuses_warnings = false;
};

[[noreturn]] void fail(j_common_ptr info, const char* message);

/// Makes libjpeg report to `errors`. A warning is kept, or is an error where warnings are refused.
void set_up(Errors& errors, bool refuses_warnings);

/// Runs `body`; what libjpeg reports is thrown as Error: "FAILED: MESSAGE; REMEDY".
template <typename Body>
void guard(Errors& errors, const char* failed, const char* remedy, Body body) {
  if (setjmp(errors.jump) != 0) {
    throw Error(std::string(failed) + ": " + errors.message + "; " + remedy);
  }
  body();
}

/// Sets `warning`, unless it is null, to the first warning that libjpeg gave, if it gave any.
void report_warning(const Errors& errors, std::string* warning);

}  // namespace slipstream::jpeg
