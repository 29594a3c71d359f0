# slipstream_use_torch_libraries(): makes programs link the CUDA runtime and NVRTC that PyTorch contains, if it contains
# them. The toolkit's libraries may be older, and a process can load only one library of each name.
function(slipstream_use_torch_libraries)
  get_filename_component(packages ${TORCH_INSTALL_PREFIX} DIRECTORY)
  foreach(name cudart nvrtc)
    file(GLOB libraries ${packages}/nvidia/*/lib/lib${name}.so.* ${TORCH_INSTALL_PREFIX}/lib/lib${name}[.-]*so.*)
    list(FILTER libraries EXCLUDE REGEX builtins)
    if(libraries)
      list(GET libraries 0 library)
      set_target_properties(CUDA::${name} PROPERTIES IMPORTED_LOCATION ${library})
    endif()
  endforeach()
  file(GLOB folders ${packages}/nvidia/*/lib)
  # Without these folders, the linker may find an older libnccl of the toolkit or the system.
  list(TRANSFORM folders REPLACE "(.+)" "LINKER:-rpath-link,\\1")
  target_link_options(torch INTERFACE ${folders})
endfunction()

# slipstream_torch_cuda(VARIABLE): the major version of the CUDA runtime that PyTorch needs; empty for a PyTorch for
# CPUs alone.
function(slipstream_torch_cuda variable)
  execute_process(COMMAND ${CMAKE_READELF} -d ${TORCH_INSTALL_PREFIX}/lib/libc10_cuda.so
    OUTPUT_VARIABLE needed ERROR_QUIET)
  string(REGEX MATCH "libcudart[^ ]*[.]so[.]([0-9]+)" needed "${needed}")
  set(${variable} "${CMAKE_MATCH_1}" PARENT_SCOPE)
endfunction()
