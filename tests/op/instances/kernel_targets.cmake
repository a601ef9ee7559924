# SPDX-License-Identifier: MIT
# Kernels under test, one unit a target, each with the flags that its kernels are shipped with. Where the compiler does
# not know the target, the same unit is compiled without the target's: its instructions then run through their twins.
# Epilogue and packing are those of the library (TILEWRIGHT_SUPPORT_FLAGS), as in the kernels that it carries and compiles.
# Twins are no shipped code: they have all functions to themselves, and -O1, which halves what they take to build.
if(TARGET op_tests)
  include(${PROJECT_SOURCE_DIR}/scripts/cpu_target_flags.cmake)
  target_sources(op_tests PRIVATE ${CMAKE_CURRENT_SOURCE_DIR}/op/instances/kernel_runner.cpp)
  function(tilewright_kernels_under_test unit target)
    set(source ${CMAKE_CURRENT_SOURCE_DIR}/op/instances/kernels_${unit}.cpp)
    target_sources(op_tests PRIVATE ${source})
    set(flags ${TILEWRIGHT_KERNEL_FLAGS})
    if(target IN_LIST TILEWRIGHT_CPU_TARGETS)
      list(APPEND flags ${TILEWRIGHT_FLAGS_${target}})
      if(unit MATCHES "twin")
        list(APPEND flags -DTILEWRIGHT_AMX_TWIN $<$<CONFIG:Release>:-O1>)
      else()
        list(APPEND flags ${TILEWRIGHT_SUPPORT_FLAGS})
      endif()
    endif()
    set_source_files_properties(${source} PROPERTIES COMPILE_OPTIONS "${flags}" SKIP_PRECOMPILE_HEADERS ON)
  endfunction()
  tilewright_kernels_under_test(baseline_twin x86-64)
  tilewright_kernels_under_test(v3 x86-64-v3)
  tilewright_kernels_under_test(v3_twin x86-64-v3)
  tilewright_kernels_under_test(v4 x86-64-v4)
  tilewright_kernels_under_test(dot x86-64-v4-bf16)
  tilewright_kernels_under_test(amx x86-64-v4-amx)
endif()
