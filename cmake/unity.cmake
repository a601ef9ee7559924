# SPDX-License-Identifier: MIT
# Files that are neighbours by path are compiled together, up to eight at a time: headers are read and templates made
# once for all of them. Neighbours may therefore not give one name to two things; the compiler says so.
# -DTILEWRIGHT_UNITY=OFF compiles each file by itself: better while one file is edited again and again, and .ci/run full
# does so to see that every file includes what it uses.
option(TILEWRIGHT_UNITY "Compile neighbouring files together" ${PROJECT_IS_TOP_LEVEL})

# tilewright_unity(target [but...]): `but` are regular expressions of paths that stay by themselves, as do files with
# options of their own and files outside of the folder that calls.
function(tilewright_unity target)
  if(NOT TILEWRIGHT_UNITY)
    return()
  endif()
  get_target_property(sources ${target} SOURCES)
  set(together)
  foreach(source IN LISTS sources)
    cmake_path(ABSOLUTE_PATH source NORMALIZE)
    cmake_path(IS_PREFIX CMAKE_CURRENT_SOURCE_DIR "${source}" inside)
    cmake_path(RELATIVE_PATH source BASE_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR} OUTPUT_VARIABLE path)
    set(alone OFF)
    foreach(pattern IN LISTS ARGN)
      if(path MATCHES "${pattern}")
        set(alone ON)
      endif()
    endforeach()
    if(inside AND NOT alone AND source MATCHES "[.]cpp$")
      list(APPEND together ${source})
    endif()
  endforeach()
  # Neighbours by path, in groups of one size.
  list(SORT together)
  list(LENGTH together count)
  if(count EQUAL 0)
    return()
  endif()
  math(EXPR groups "(${count} + 7) / 8")
  math(EXPR size "(${count} + ${groups} - 1) / ${groups}")
  set(index 0)
  foreach(source IN LISTS together)
    math(EXPR group "${index} / ${size}")
    set_source_files_properties(${source} PROPERTIES UNITY_GROUP ${group})
    math(EXPR index "${index} + 1")
  endforeach()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
  # What a source file keeps to itself, g++ takes for a header's here.
  target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)
endfunction()
