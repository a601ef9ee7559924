# SPDX-License-Identifier: MIT
# Reads the CPU targets and their compiler flags from arch_specs.json:
#   TILEWRIGHT_CPU_TARGETS         every x86 target that this compiler builds for, in the file's order
#   TILEWRIGHT_FLAGS_<target>      its flags, a list
#   TILEWRIGHT_KERNEL_FLAGS        the flags of CPU kernels for every target, from src/jit/host_flags.inc
#   TILEWRIGHT_JIT_FLAGS           the same, without what a sanitizer build changes
# A target whose flags the compiler rejects is left out of the always-built kernels, with one line that says so.
include(CheckCXXSourceCompiles)

set(_host_flags ${PROJECT_SOURCE_DIR}/src/jit/host_flags.inc)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${_host_flags})
# Every quoted word outside the comment lines.
file(STRINGS ${_host_flags} _flag_lines REGEX "^ *\"")
string(REGEX MATCHALL "\"[^\"]+\"" TILEWRIGHT_KERNEL_FLAGS "${_flag_lines}")
list(TRANSFORM TILEWRIGHT_KERNEL_FLAGS REPLACE "\"" "")
if(NOT TILEWRIGHT_KERNEL_FLAGS)
  message(FATAL_ERROR "${_host_flags} names no flag")
endif()
# What the JIT itself compiles with, whatever this build adds.
set(TILEWRIGHT_JIT_FLAGS ${TILEWRIGHT_KERNEL_FLAGS})
# Register tiles are unrolled: written out at each access, checks are many times the code, and optimising them takes
# minutes a unit. -O1 with checks as calls, of functions that stay functions (intrinsics, which spell it __always_inline__,
# are still inlined), compiles much sooner and checks the same accesses.
if(TILEWRIGHT_SANITIZE)
  list(TRANSFORM TILEWRIGHT_KERNEL_FLAGS REPLACE "^-O3$" "-O1")
  list(APPEND TILEWRIGHT_KERNEL_FLAGS -Dalways_inline=unused)
  if(TILEWRIGHT_SANITIZE MATCHES "address")
    if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
      list(APPEND TILEWRIGHT_KERNEL_FLAGS --param=asan-instrumentation-with-call-threshold=0)
    else()
      list(APPEND TILEWRIGHT_KERNEL_FLAGS -mllvm -asan-instrumentation-with-call-threshold=0)
    endif()
  endif()
endif()

set(_arch_specs ${PROJECT_SOURCE_DIR}/src/arch/arch_specs.json)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${_arch_specs})

# The strict check first: a malformed file fails here with its line, not with a message of string(JSON).
execute_process(
  COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/scripts/generate/generate_arch_table.py ${_arch_specs}
          ${CMAKE_BINARY_DIR}/CMakeFiles/arch_table_check.inc
  RESULT_VARIABLE _arch_specs_failed
  ERROR_VARIABLE _arch_specs_error)
if(_arch_specs_failed)
  message(FATAL_ERROR "${_arch_specs_error}")
endif()

file(READ ${_arch_specs} _arch_json)
set(TILEWRIGHT_CPU_TARGETS)
string(JSON _target_count LENGTH "${_arch_json}" targets)
math(EXPR _last_target "${_target_count} - 1")
foreach(_index RANGE ${_last_target})
  string(JSON _vendor GET "${_arch_json}" targets ${_index} vendor)
  if(NOT _vendor STREQUAL "x86")
    continue()
  endif()
  string(JSON _target GET "${_arch_json}" targets ${_index} target)
  string(JSON _flag_count LENGTH "${_arch_json}" targets ${_index} flags)
  set(TILEWRIGHT_FLAGS_${_target})
  if(_flag_count GREATER 0)
    math(EXPR _last_flag "${_flag_count} - 1")
    foreach(_flag RANGE ${_last_flag})
      string(JSON _value GET "${_arch_json}" targets ${_index} flags ${_flag})
      list(APPEND TILEWRIGHT_FLAGS_${_target} ${_value})
    endforeach()
  endif()

  # The flags are part of the cached answer's name, so that an edit asks the compiler again.
  string(JOIN " " CMAKE_REQUIRED_FLAGS ${TILEWRIGHT_FLAGS_${_target}})
  string(MAKE_C_IDENTIFIER "TILEWRIGHT_ACCEPTS_${CMAKE_REQUIRED_FLAGS}" _accepted)
  set(CMAKE_REQUIRED_QUIET ON)
  check_cxx_source_compiles("int main() { return 0; }" ${_accepted})
  unset(CMAKE_REQUIRED_QUIET)
  if(${_accepted})
    list(APPEND TILEWRIGHT_CPU_TARGETS ${_target})
  else()
    message(STATUS "tilewright: ${CMAKE_CXX_COMPILER} does not accept ${CMAKE_REQUIRED_FLAGS}; "
                   "no always-built kernels for ${_target}")
  endif()
  unset(CMAKE_REQUIRED_FLAGS)
endforeach()
