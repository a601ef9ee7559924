# SPDX-License-Identifier: MIT
# Read by ctest: one entry for each suite of PROGRAM. A process a test would cost more than most tests.
if(NOT EXISTS ${PROGRAM})
  add_test(${KIND}.tests_not_built ${PROGRAM})
  set_tests_properties(${KIND}.tests_not_built PROPERTIES LABELS ${KIND})
  return()
endif()
execute_process(COMMAND ${PROGRAM} --gtest_list_tests OUTPUT_VARIABLE listing ERROR_VARIABLE errors
                RESULT_VARIABLE failed)
if(failed)
  message(FATAL_ERROR "${PROGRAM} --gtest_list_tests failed (${failed}): ${errors}")
endif()
# A suite's line ends with a dot, or with "  # TypeParam = ..." after it; its tests' lines are indented.
string(REGEX MATCHALL "(^|\n)[A-Za-z0-9_/]+\\." suites "${listing}")
foreach(suite IN LISTS suites)
  string(STRIP "${suite}" suite)
  string(REGEX REPLACE "\\.$" "" suite "${suite}")
  set(labels ${KIND})
  foreach(extra IN ITEMS Gpu Slow Emulated)
    if(suite MATCHES "${extra}")
      string(TOLOWER ${extra} label)
      list(APPEND labels ${label})
    endif()
  endforeach()
  list(REMOVE_DUPLICATES labels)
  add_test(${KIND}.${suite} ${PROGRAM} --gtest_filter=${suite}.*)
  set_tests_properties(${KIND}.${suite} PROPERTIES LABELS "${labels}" ENVIRONMENT "${TEST_ENVIRONMENT}"
                                                   ${TEST_PROPERTIES})
endforeach()
