execute_process(COMMAND nvidia-smi -L OUTPUT_QUIET ERROR_QUIET RESULT_VARIABLE no_gpu)

# slipstream_together(TARGET...): compiles sources of a target in groups of a dozen, but CUDA sources one by one. Names
# in unnamed namespaces must differ between the sources of a target.
function(slipstream_together)
  set_target_properties(${ARGN} PROPERTIES UNITY_BUILD ${SLIPSTREAM_UNITY} UNITY_BUILD_BATCH_SIZE 12)
  foreach(target ${ARGN})
    get_target_property(kernels ${target} SOURCES)
    list(FILTER kernels INCLUDE REGEX "\\.cu$")
    set_source_files_properties(${kernels} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-subobject-linkage>)
  endforeach()
endfunction()

# slipstream_optimize_little(TARGET): for code whose speed users do not notice. It halves the compile time.
function(slipstream_optimize_little target)
  if(CMAKE_CXX_FLAGS_RELEASE MATCHES "-O3")
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-O1>)
  endif()
endfunction()

# slipstream_module(NAME SOURCES ... LIBS ... [HOT]): the static library slipstream_NAME, also known as
# slipstream::NAME. LIBS are public. HOT modules process every sample and are optimized under sanitizers, too. All
# others work at most once per batch and are optimized little.
function(slipstream_module name)
  cmake_parse_arguments(PARSE_ARGV 1 module "HOT" "" "SOURCES;LIBS")
  set(target slipstream_${name})
  add_library(${target} STATIC ${module_SOURCES})
  target_link_libraries(${target} PRIVATE $<BUILD_INTERFACE:slipstream_flags>)
  add_library(slipstream::${name} ALIAS ${target})
  set_property(GLOBAL APPEND PROPERTY SLIPSTREAM_LIBRARIES ${target})
  slipstream_together(${target})
  target_compile_features(${target} PUBLIC cxx_std_20)
  target_include_directories(${target} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>)
  target_link_libraries(${target} PUBLIC ${module_LIBS})
  if(NOT module_HOT)
    slipstream_optimize_little(${target})
  elseif(SLIPSTREAM_SANITIZE)
    target_compile_options(${target} PRIVATE -O1)
  endif()
endfunction()

# slipstream_test_bodies(TARGET...): builds test sources with GoogleTest's precompiled headers and little optimization.
# The build takes half the time, and the tests are equally fast.
function(slipstream_test_bodies)
  slipstream_together(${ARGN})
  if(NOT TARGET slipstream_source_folder)
    add_library(slipstream_source_folder STATIC ${PROJECT_SOURCE_DIR}/tests/support/source_folder.cpp)
    target_include_directories(slipstream_source_folder PRIVATE ${PROJECT_SOURCE_DIR}/tests)
    target_compile_definitions(slipstream_source_folder PRIVATE SLIPSTREAM_SOURCE_FOLDER="${PROJECT_SOURCE_DIR}")
    target_link_libraries(slipstream_source_folder PRIVATE slipstream_flags)
  endif()
  foreach(target ${ARGN})
    target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/tests)
    target_link_libraries(${target} PRIVATE slipstream_flags slipstream_source_folder GTest::gmock)
    # g++ 12 gives false warnings about strings in temporaries that are never constructed, and in precompiled headers.
    target_compile_options(${target} PRIVATE "$<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-maybe-uninitialized;-Wno-array-bounds;-Wno-stringop-overflow;-Wno-stringop-overread>")
    slipstream_optimize_little(${target})
  endforeach()
  if(NOT TARGET slipstream_test_headers)
    file(WRITE ${PROJECT_BINARY_DIR}/test_headers.cpp "")
    add_library(slipstream_test_headers OBJECT ${PROJECT_BINARY_DIR}/test_headers.cpp)
    target_precompile_headers(slipstream_test_headers PRIVATE <gmock/gmock.h> <filesystem> <fstream>
      <functional> <map> <memory> <random> <string> <thread> <vector>)
    target_compile_options(slipstream_test_headers PRIVATE -fPIC)
    target_link_libraries(slipstream_test_headers PRIVATE slipstream_flags GTest::gmock)
    slipstream_optimize_little(slipstream_test_headers)
  endif()
  foreach(target ${ARGN})
    target_compile_options(${target} PRIVATE -fPIC)  # must equal the option of the precompiled headers, not -fPIE
    target_precompile_headers(${target} REUSE_FROM slipstream_test_headers)
  endforeach()
endfunction()

# slipstream_test(NAME LABELS cpu|gpu|slow... SOURCES ... LIBS ... [ALONE] [TORCH] [SHARDS number]):
# a GoogleTest binary. CTest runs it as SHARDS processes (default 1), each with a part of the tests; there are few,
# because starting a process takes longer than most tests. Under sanitizers there are four, except for TORCH, whose
# sources include Torch's headers and which take longest to load. ALONE: no other test runs at the same time. A binary
# with the label gpu skips all its tests at once if there is no GPU; it is not built under sanitizers, which do not know
# the driver's memory. CTest ends a process that hangs after 25 minutes, its default.
function(slipstream_test name)
  cmake_parse_arguments(PARSE_ARGV 1 test "ALONE;TORCH" "SHARDS" "LABELS;SOURCES;LIBS")
  if(SLIPSTREAM_SANITIZE AND "gpu" IN_LIST test_LABELS)
    return()
  endif()
  if(SLIPSTREAM_SANITIZE AND NOT test_TORCH)
    set(test_SHARDS 4)
  elseif(NOT test_SHARDS)
    set(test_SHARDS 1)
  endif()
  add_executable(${name} ${test_SOURCES})
  if(test_TORCH)
    slipstream_torch_bodies(${name})
  else()
    slipstream_test_bodies(${name})
  endif()
  target_link_libraries(${name} PRIVATE ${test_LIBS} GTest::gtest_main)
  set(properties RUN_SERIAL "${test_ALONE}")
  if(no_gpu AND "gpu" IN_LIST test_LABELS)
    add_test(NAME ${name} COMMAND sh -c "'$<TARGET_FILE:${name}>' && exit 77")
    set_tests_properties(${name} PROPERTIES LABELS "${test_LABELS}" ${properties} SKIP_RETURN_CODE 77)
    return()
  endif()
  math(EXPR last "${test_SHARDS} - 1")
  foreach(shard RANGE ${last})
    add_test(NAME ${name}.${shard} COMMAND ${name})
    set_tests_properties(${name}.${shard} PROPERTIES LABELS "${test_LABELS}" ${properties}
      ENVIRONMENT "GTEST_TOTAL_SHARDS=${test_SHARDS};GTEST_SHARD_INDEX=${shard}")
  endforeach()
endfunction()
