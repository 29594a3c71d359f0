include(GoogleTest OPTIONAL)

# slipstream_room(NAME SOURCES ... LIBS ...): the static library slipstream_NAME, also known as
# slipstream::NAME. LIBS are public. A room without sources yet only passes its LIBS on.
function(slipstream_room name)
  cmake_parse_arguments(PARSE_ARGV 1 room "" "" "SOURCES;LIBS")
  set(target slipstream_${name})
  set(scope PUBLIC)
  foreach(source IN LISTS room_SOURCES)  # TEMPORARY, while rooms are being written side by side
    if(NOT EXISTS ${CMAKE_CURRENT_SOURCE_DIR}/${source} AND NOT IS_ABSOLUTE ${source})
      message(WARNING "room ${name}: no ${source} yet")
      list(REMOVE_ITEM room_SOURCES ${source})
    endif()
  endforeach()
  if(room_SOURCES)
    add_library(${target} STATIC ${room_SOURCES})
    target_link_libraries(${target} PRIVATE $<BUILD_INTERFACE:slipstream_flags>)
  else()
    add_library(${target} INTERFACE)
    set(scope INTERFACE)
  endif()
  add_library(slipstream::${name} ALIAS ${target})
  target_include_directories(${target} ${scope} ${PROJECT_SOURCE_DIR}/include)
  # Headers between rooms: #include "room/header.h".
  target_include_directories(${target} ${scope} ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(${target} ${scope} ${room_LIBS})
endfunction()

# slipstream_test(NAME LABELS cpu|gpu|slow... SOURCES ... LIBS ... [TIMEOUT seconds]): a GoogleTest
# binary whose tests CTest knows one by one.
function(slipstream_test name)
  cmake_parse_arguments(PARSE_ARGV 1 test "" "TIMEOUT" "LABELS;SOURCES;LIBS")
  if(NOT test_TIMEOUT)
    set(test_TIMEOUT 120)
  endif()
  add_executable(${name} ${test_SOURCES})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  target_link_libraries(${name} PRIVATE slipstream_flags ${test_LIBS} GTest::gmock GTest::gtest_main)
  string(REPLACE ";" "\\;" labels "${test_LABELS}")
  gtest_discover_tests(${name} DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 60
    PROPERTIES LABELS "${labels}" TIMEOUT ${test_TIMEOUT})
endfunction()
