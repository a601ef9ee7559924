# SPDX-License-Identifier: MIT
# Kernels under test, one unit a target, each with the flags that arch_specs.json gives the target. Where the compiler does
# not know the target, the same unit is compiled without flags: its instructions then run through their twins.
if(TARGET op_tests)
  include(${PROJECT_SOURCE_DIR}/scripts/cpu_target_flags.cmake)
  target_sources(op_tests PRIVATE ${CMAKE_CURRENT_SOURCE_DIR}/op/kernel_runner.cpp)
  function(tilewright_kernels_under_test unit target)
    set(source ${CMAKE_CURRENT_SOURCE_DIR}/op/kernels_${unit}.cpp)
    target_sources(op_tests PRIVATE ${source})
    if(target IN_LIST TILEWRIGHT_CPU_TARGETS)
      set_source_files_properties(
        ${source} PROPERTIES COMPILE_OPTIONS "${TILEWRIGHT_FLAGS_${target}};${ARGN}" SKIP_PRECOMPILE_HEADERS ON)
    else()
      set_source_files_properties(${source} PROPERTIES SKIP_PRECOMPILE_HEADERS ON)
    endif()
  endfunction()
  tilewright_kernels_under_test(baseline x86-64)
  tilewright_kernels_under_test(v3 x86-64-v3)
  tilewright_kernels_under_test(v3_twin x86-64-v3 -DTILEWRIGHT_AMX_TWIN)
  tilewright_kernels_under_test(v4 x86-64-v4)
  tilewright_kernels_under_test(dot x86-64-v4-bf16)
  tilewright_kernels_under_test(amx x86-64-v4-amx)
endif()
