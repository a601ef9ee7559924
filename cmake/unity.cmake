# SPDX-License-Identifier: MIT
# Files of one folder are compiled together, up to six at a time: headers are read and templates made once for all of
# them. Two files of a folder may therefore not give one name to
# two things; the compiler says so. -DTILEWRIGHT_UNITY=OFF compiles each file by itself: better while one file is edited
# again and again, and .ci/run full does so to see that every file includes what it uses.
option(TILEWRIGHT_UNITY "Compile the files of a folder together" ${PROJECT_IS_TOP_LEVEL})

# tilewright_unity(target [but...]): `but` are regular expressions of paths that stay by themselves, as do files with
# options of their own and files outside of the folder that calls.
function(tilewright_unity target)
  if(NOT TILEWRIGHT_UNITY)
    return()
  endif()
  get_target_property(sources ${target} SOURCES)
  set(folders)
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
      cmake_path(GET path PARENT_PATH folder)
      string(MAKE_C_IDENTIFIER "here_${folder}" folder)
      list(APPEND folders ${folder})
      list(APPEND files_${folder} ${source})
    endif()
  endforeach()
  list(REMOVE_DUPLICATES folders)
  foreach(folder IN LISTS folders)
    # Groups of one size: seven files are four and three.
    list(LENGTH files_${folder} count)
    math(EXPR groups "(${count} + 5) / 6")
    math(EXPR size "(${count} + ${groups} - 1) / ${groups}")
    set(index 0)
    foreach(file IN LISTS files_${folder})
      math(EXPR group "${index} / ${size}")
      set_source_files_properties(${file} PROPERTIES UNITY_GROUP ${folder}_${group})
      math(EXPR index "${index} + 1")
    endforeach()
  endforeach()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
  # What a source file keeps to itself, g++ takes for a header's here.
  target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)
endfunction()
