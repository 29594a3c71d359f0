# CUDA and LibTorch. The list of GPU architectures is TORCH_CUDA_ARCH_LIST, never
# CMAKE_CUDA_ARCHITECTURES: find_package(Torch) puts the flags for it into CMAKE_CUDA_FLAGS.
file(STRINGS ${PROJECT_SOURCE_DIR}/scripts/installed_torch.py oldest_torch REGEX "^OLDEST = ")
string(REGEX REPLACE "[^0-9]*([0-9]+), ([0-9]+).*" "\\1.\\2" oldest_torch "${oldest_torch}")

if(SKBUILD)  # a build by pip, for the PyTorch of its Python
  find_package(Python3 REQUIRED COMPONENTS Interpreter)
  execute_process(COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/scripts/installed_torch.py
    OUTPUT_VARIABLE found OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX MATCH "^[^\n]*" torch_prefix "${found}")
  list(PREPEND CMAKE_PREFIX_PATH ${torch_prefix})
endif()

if(NOT DEFINED ENV{CUDACXX} AND NOT CMAKE_CUDA_COMPILER)
  find_program(CMAKE_CUDA_COMPILER nvcc HINTS $ENV{CUDA_HOME}/bin PATHS /usr/local/cuda/bin)
  if(NOT CMAKE_CUDA_COMPILER)
    message(FATAL_ERROR "slipstream: no nvcc was found. Install the CUDA toolkit of the major version of PyTorch's CUDA, "
      "and set CUDACXX to its bin/nvcc; or run scripts/setup.sh, which downloads nvcc, and `. build/env.sh`")
  endif()
endif()

set(CMAKE_CUDA_STANDARD 20)
set(CMAKE_CUDA_STANDARD_REQUIRED ON)
set(CMAKE_CUDA_ARCHITECTURES OFF)
set(CMAKE_CUDA_RUNTIME_LIBRARY Shared)  # the same runtime as Torch's
if(DEFINED ENV{CUDA_HOME} AND NOT CUDA_TOOLKIT_ROOT_DIR)
  set(CUDA_TOOLKIT_ROOT_DIR $ENV{CUDA_HOME} CACHE PATH "CUDA toolkit")
  set(CUDAToolkit_ROOT $ENV{CUDA_HOME} CACHE PATH "CUDA toolkit")
endif()
enable_language(CUDA)
find_package(CUDAToolkit REQUIRED)

if(NOT TORCH_CUDA_ARCH_LIST)
  set(archs $ENV{TORCH_CUDA_ARCH_LIST})
  if(NOT archs)
    execute_process(COMMAND nvidia-smi --query-gpu=compute_cap --format=csv,noheader
      OUTPUT_VARIABLE archs ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE failed)
    string(REGEX MATCHALL "[0-9]+\\.[0-9]+" archs "${archs}")
    list(REMOVE_DUPLICATES archs)
    if(SLIPSTREAM_ALL_GPUS OR (SKBUILD AND NOT archs))
      set(archs 7.5 8.0 8.6 8.9 9.0 10.0 12.0+PTX)
      if(CUDAToolkit_VERSION VERSION_LESS 12.8)
        set(archs 7.5 8.0 8.6 8.9 9.0+PTX)
      endif()
    elseif(NOT archs)
      set(archs 8.0)
    endif()
  endif()
  set(TORCH_CUDA_ARCH_LIST "${archs}" CACHE STRING "GPU architectures to build for")
endif()
message(STATUS "GPU architectures: ${TORCH_CUDA_ARCH_LIST}")

set(CMAKE_MESSAGE_LOG_LEVEL ERROR)  # Torch's configuration warns about itself on every machine
find_package(Torch REQUIRED)
unset(CMAKE_MESSAGE_LOG_LEVEL)
include(slipstreamTorchLibraries)
slipstream_torch_cuda(torch_cuda)
if(Torch_VERSION VERSION_LESS oldest_torch)
  message(FATAL_ERROR "slipstream: ${Torch_DIR} is LibTorch ${Torch_VERSION}, but ${oldest_torch} or newer is needed")
elseif(NOT torch_cuda)
  message(FATAL_ERROR "slipstream: LibTorch ${Torch_VERSION} in ${Torch_DIR} is not built for CUDA; take one that is")
elseif(NOT torch_cuda EQUAL CUDAToolkit_VERSION_MAJOR)
  message(FATAL_ERROR "slipstream: LibTorch ${Torch_VERSION} in ${Torch_DIR} is built for CUDA ${torch_cuda}, but the CUDA "
    "toolkit is version ${CUDAToolkit_VERSION}. Set CUDACXX to bin/nvcc and CUDA_HOME to the folder of a toolkit "
    "${torch_cuda}.x, or take a PyTorch for CUDA ${CUDAToolkit_VERSION_MAJOR}; then configure into an empty folder")
endif()
slipstream_use_torch_libraries()

# Parsing Torch's headers takes longer than compiling most files that include them.
set(torch_headers <torch/nn/module.h> <torch/nn/pimpl.h> <torch/nn/modules/batchnorm.h>
  <torch/nn/modules/conv.h> <torch/nn/modules/linear.h> <ATen/Context.h> <ATen/autocast_mode.h>
  <c10/cuda/CUDACachingAllocator.h> <c10/cuda/CUDAGuard.h> <c10/cuda/CUDAStream.h>)
file(WRITE ${PROJECT_BINARY_DIR}/torch_headers.cpp "")

add_library(slipstream_torch_headers OBJECT ${PROJECT_BINARY_DIR}/torch_headers.cpp)
target_link_libraries(slipstream_torch_headers PRIVATE slipstream_flags torch)
target_precompile_headers(slipstream_torch_headers PRIVATE ${torch_headers})
slipstream_optimize_little(slipstream_torch_headers)

# slipstream_use_torch_headers(TARGET): compiles it with Torch's precompiled headers, and with their level of
# optimization.
function(slipstream_use_torch_headers target)
  slipstream_optimize_little(${target})
  target_precompile_headers(${target} REUSE_FROM slipstream_torch_headers)
  # g++ 12 gives false warnings about std::string if its header is precompiled. Executables are compiled with the
  # options of libraries, because the precompiled headers are.
  target_compile_options(${target} PRIVATE -fPIC
    "$<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-array-bounds;-Wno-maybe-uninitialized;-Wno-stringop-overflow;-Wno-stringop-overread>")
endfunction()

# slipstream_torch_module(NAME ...): a library whose sources include Torch's headers.
function(slipstream_torch_module name)
  slipstream_module(${name} ${ARGN})
  slipstream_use_torch_headers(slipstream_${name})
endfunction()

# slipstream_torch_bodies(TARGET...): slipstream_test_bodies() of sources that include Torch's headers.
function(slipstream_torch_bodies)
  slipstream_together(${ARGN})
  if(NOT TARGET slipstream_torch_test_headers)
    add_library(slipstream_torch_test_headers OBJECT ${PROJECT_BINARY_DIR}/torch_headers.cpp)
    target_link_libraries(slipstream_torch_test_headers PRIVATE slipstream_flags torch GTest::gmock)
    target_compile_options(slipstream_torch_test_headers PRIVATE -O0 -fPIC)
    target_precompile_headers(slipstream_torch_test_headers PRIVATE ${torch_headers} <gmock/gmock.h>)
  endif()
  foreach(target ${ARGN})
    target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/tests)
    target_link_libraries(${target} PRIVATE slipstream_flags GTest::gmock)
    target_compile_options(${target} PRIVATE -O0 -fPIC
      $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-maybe-uninitialized>)
    target_precompile_headers(${target} REUSE_FROM slipstream_torch_test_headers)
  endforeach()
endfunction()
