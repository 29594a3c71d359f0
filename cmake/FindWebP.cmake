# WebP::webpdemux, which distributions ship without a CMake package: the decoder and the demuxer of libwebp.
find_path(WEBP_INCLUDE_DIR webp/demux.h)
find_library(WEBP_LIBRARY webp)
find_library(WEBP_DEMUX_LIBRARY webpdemux)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(WebP REQUIRED_VARS WEBP_LIBRARY WEBP_DEMUX_LIBRARY WEBP_INCLUDE_DIR)
mark_as_advanced(WEBP_INCLUDE_DIR WEBP_LIBRARY WEBP_DEMUX_LIBRARY)

if(WebP_FOUND AND NOT TARGET WebP::webpdemux)
  add_library(WebP::webp UNKNOWN IMPORTED)
  set_target_properties(WebP::webp PROPERTIES
    IMPORTED_LOCATION ${WEBP_LIBRARY}
    INTERFACE_INCLUDE_DIRECTORIES ${WEBP_INCLUDE_DIR})
  add_library(WebP::webpdemux UNKNOWN IMPORTED)
  set_target_properties(WebP::webpdemux PROPERTIES
    IMPORTED_LOCATION ${WEBP_DEMUX_LIBRARY}
    INTERFACE_LINK_LIBRARIES WebP::webp)
endif()
