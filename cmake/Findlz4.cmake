# Defines lz4::lz4, because distributions install lz4 without a CMake package.
find_path(LZ4_INCLUDE_DIR lz4frame.h)
find_library(LZ4_LIBRARY lz4)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(lz4 REQUIRED_VARS LZ4_LIBRARY LZ4_INCLUDE_DIR)
mark_as_advanced(LZ4_INCLUDE_DIR LZ4_LIBRARY)

if(lz4_FOUND AND NOT TARGET lz4::lz4)
  add_library(lz4::lz4 UNKNOWN IMPORTED)
  set_target_properties(lz4::lz4 PROPERTIES
    IMPORTED_LOCATION ${LZ4_LIBRARY}
    INTERFACE_INCLUDE_DIRECTORIES ${LZ4_INCLUDE_DIR})
endif()
