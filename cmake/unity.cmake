# SPDX-License-Identifier: MIT
# Files that are neighbours are compiled together, up to sixteen at a time: headers are read and templates made once for
# all of them. Neighbours by path, but what includes a library whose templates cost seconds comes first. No two files of a
# target may therefore give one name to two things: scripts/check_neighbours.py looks for such names.
# -DTILEWRIGHT_UNITY=OFF compiles each file by itself: better while one file is edited again and again. clang-tidy reads
# each file by itself too (cmake/unity_database.py), and finds one that does not include what it uses.
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
  # Groups of one size.
  list(SORT together)
  set(heavy)
  foreach(source IN LISTS together)
    file(STRINGS ${source} includes REGEX "#include <(nlohmann|CLI)/")
    if(includes)
      list(APPEND heavy ${source})
    endif()
  endforeach()
  list(REMOVE_ITEM together ${heavy})
  list(PREPEND together ${heavy})
  list(LENGTH together count)
  if(count EQUAL 0)
    return()
  endif()
  math(EXPR groups "(${count} + 15) / 16")
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
