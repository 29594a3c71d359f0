# `cmake --install` installs all modules as one shared library, the program, the headers and a package for
# find_package(slipstream). The target slipstream_package builds the parts that the default build leaves out.
if(NOT SLIPSTREAM_TORCH)
  install(CODE "message(FATAL_ERROR \"slipstream: nothing to install, for SLIPSTREAM_TORCH is off\")")
  return()
endif()

include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/slipstream)

get_property(libraries GLOBAL PROPERTY SLIPSTREAM_LIBRARIES)
list(REMOVE_ITEM libraries slipstream_cli_main)
list(JOIN libraries "," libraries)
file(GENERATE OUTPUT ${PROJECT_BINARY_DIR}/package.cpp CONTENT "")
add_library(slipstream_shared SHARED EXCLUDE_FROM_ALL ${PROJECT_BINARY_DIR}/package.cpp)
target_link_libraries(slipstream_shared PRIVATE slipstream::cli)
set_target_properties(slipstream_shared PROPERTIES
  OUTPUT_NAME slipstream
  LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/package
  LINK_LIBRARY_OVERRIDE WHOLE_ARCHIVE,${libraries}
  VERSION ${PROJECT_VERSION}
  SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}
  INSTALL_RPATH "$ORIGIN;$<TARGET_FILE_DIR:torch>;$<TARGET_FILE_DIR:CUDA::cudart>;$<TARGET_FILE_DIR:CUDA::nvrtc>")

file(RELATIVE_PATH library_from_program /${CMAKE_INSTALL_BINDIR} /${CMAKE_INSTALL_LIBDIR})
add_executable(slipstream_program EXCLUDE_FROM_ALL $<TARGET_OBJECTS:slipstream_main>)
add_dependencies(slipstream_program slipstream_cli_main)
target_link_libraries(slipstream_program PRIVATE
  $<TARGET_FILE:slipstream_cli_main> slipstream_shared)
set_target_properties(slipstream_program PROPERTIES
  OUTPUT_NAME slipstream
  RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/package
  INSTALL_RPATH "$ORIGIN/${library_from_program}")

add_custom_target(slipstream_package DEPENDS slipstream_shared slipstream_program)

install(CODE "
  foreach(file $<TARGET_FILE:slipstream_shared> $<TARGET_FILE:slipstream_program>)
    if(NOT EXISTS \${file})
      message(FATAL_ERROR \"slipstream: \${file} has not been built; \"
        \"run: cmake --build ${PROJECT_BINARY_DIR} --target slipstream_package\")
    endif()
  endforeach()")
install(TARGETS slipstream_shared slipstream_program slipstream_cli_main)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/slipstream TYPE INCLUDE)
install(FILES ${PROJECT_SOURCE_DIR}/src/cli/early_signals.cpp
  DESTINATION ${CMAKE_INSTALL_DATADIR}/slipstream)

string(REGEX MATCH "^[0-9]+[.][0-9]+" torch_version "${Torch_VERSION}")
string(REPLACE "." "[.]" torch_version_pattern "${torch_version}")
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/slipstreamConfig.cmake.in
  ${PROJECT_BINARY_DIR}/package/slipstreamConfig.cmake INSTALL_DESTINATION ${package_dir}
  PATH_VARS CMAKE_INSTALL_LIBDIR CMAKE_INSTALL_INCLUDEDIR CMAKE_INSTALL_DATADIR)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/package/slipstreamConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/package/slipstreamConfig.cmake
  ${PROJECT_SOURCE_DIR}/cmake/slipstreamTorchLibraries.cmake
  ${PROJECT_BINARY_DIR}/package/slipstreamConfigVersion.cmake DESTINATION ${package_dir})
