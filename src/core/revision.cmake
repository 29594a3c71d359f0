# Writes OUTPUT, a header with VERSION and the revision of SOURCE_DIR, when its text has changed.
# Run at every build.
set(revision "")
find_package(Git QUIET)
if(GIT_FOUND AND EXISTS ${SOURCE_DIR}/.git)
  execute_process(COMMAND ${GIT_EXECUTABLE} rev-parse HEAD WORKING_DIRECTORY ${SOURCE_DIR}
    OUTPUT_VARIABLE revision OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
  if(failed)
    set(revision "")
  else()
    execute_process(COMMAND ${GIT_EXECUTABLE} diff --quiet HEAD WORKING_DIRECTORY ${SOURCE_DIR}
      RESULT_VARIABLE changed OUTPUT_QUIET ERROR_QUIET)
    if(changed)
      string(APPEND revision "-dirty")
    endif()
  endif()
endif()
if(NOT revision)
  string(REGEX MATCH "^[-._+0-9A-Za-z]+$" revision "$ENV{SLIPSTREAM_REVISION}")
endif()
if(NOT revision)
  set(revision unknown)
endif()
file(CONFIGURE OUTPUT ${OUTPUT} CONTENT [[
#pragma once

namespace slipstream {

inline constexpr const char* kVersion = "@VERSION@";
inline constexpr const char* kRevision = "@revision@";

}  // namespace slipstream
]] @ONLY)
