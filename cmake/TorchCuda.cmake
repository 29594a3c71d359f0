# CUDA and LibTorch. The list of GPU architectures is TORCH_CUDA_ARCH_LIST, never
# CMAKE_CUDA_ARCHITECTURES: find_package(Torch) puts the flags for it into CMAKE_CUDA_FLAGS.
if(NOT TORCH_CUDA_ARCH_LIST)
  set(archs $ENV{TORCH_CUDA_ARCH_LIST})
  if(NOT archs)
    execute_process(COMMAND nvidia-smi --query-gpu=compute_cap --format=csv,noheader
      OUTPUT_VARIABLE archs ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE failed)
    if(failed)
      set(archs "8.0")
    endif()
    string(REGEX MATCHALL "[0-9]+\\.[0-9]+" archs "${archs}")
    list(REMOVE_DUPLICATES archs)
  endif()
  set(TORCH_CUDA_ARCH_LIST "${archs}" CACHE STRING "GPU architectures to build for")
endif()
message(STATUS "GPU architectures: ${TORCH_CUDA_ARCH_LIST}")

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
set(CMAKE_MESSAGE_LOG_LEVEL ERROR)  # Torch's configuration warns about itself on every machine
find_package(Torch REQUIRED)
unset(CMAKE_MESSAGE_LOG_LEVEL)
