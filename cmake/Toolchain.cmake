# Compiler settings of all targets: standard, warnings, exact floats, sanitizers, ccache.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

find_program(SLIPSTREAM_CCACHE ccache)
if(SLIPSTREAM_CCACHE)
  # Paths are relative, so that a clone in another folder can use the results of this one, including precompiled
  # headers.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env
      CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1
      CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
      ${SLIPSTREAM_CCACHE})
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${CMAKE_CXX_COMPILER_LAUNCHER})
endif()

# Linked by every module and test, but never by users.
add_library(slipstream_flags INTERFACE)
file(RELATIVE_PATH source_from_build ${PROJECT_BINARY_DIR} ${PROJECT_SOURCE_DIR})
# Headers inside the library: #include "module/header.h".
target_include_directories(slipstream_flags INTERFACE ${PROJECT_SOURCE_DIR}/src)
target_compile_options(slipstream_flags INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Werror -ffp-contract=off
    -ffile-prefix-map=${PROJECT_SOURCE_DIR}/= -ffile-prefix-map=${source_from_build}=>
  $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-fpch-preprocess>
  # g++ 12 at -O3 gives false warnings about std::string::insert.
  $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-restrict>
  # g++ does not warn about these conversions in C++, and most of them are loop indices.
  $<$<COMPILE_LANG_AND_ID:CXX,Clang>:-Wthread-safety -Wno-sign-conversion -Wno-missing-braces>
  # ccache identifies a precompiled header by its contents.
  "$<$<COMPILE_LANG_AND_ID:CXX,Clang>:SHELL:-Xclang -fno-pch-timestamp>"
  # clang also warns about names in unnamed namespaces of another source that is compiled in the same group.
  $<$<AND:$<BOOL:${SLIPSTREAM_UNITY}>,$<COMPILE_LANG_AND_ID:CXX,Clang>>:-Wno-shadow>
  $<$<COMPILE_LANGUAGE:CUDA>:--fmad=false -prec-div=true -prec-sqrt=true -ftz=false -lineinfo
    --Werror=all-warnings -Xcompiler=-Wall,-Wextra,-Wshadow,-Werror,-ffp-contract=off>)

if(SLIPSTREAM_SANITIZE STREQUAL "address")
  set(sanitize -fsanitize=address,undefined -fno-sanitize-recover=all)
elseif(SLIPSTREAM_SANITIZE STREQUAL "thread")
  set(sanitize -fsanitize=thread)
elseif(SLIPSTREAM_SANITIZE)
  message(FATAL_ERROR "SLIPSTREAM_SANITIZE is '${SLIPSTREAM_SANITIZE}': use address or thread")
endif()
if(SLIPSTREAM_SANITIZE)
  target_compile_definitions(slipstream_flags INTERFACE SLIPSTREAM_SANITIZED)
  add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:${sanitize};-fno-omit-frame-pointer>")
  add_link_options(${sanitize})
  # Links in less than half the time.
  find_program(SLIPSTREAM_LLD ld.lld)
  if(SLIPSTREAM_LLD)
    add_link_options(-fuse-ld=lld)
  endif()
endif()
if(SLIPSTREAM_FUZZ)
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()
