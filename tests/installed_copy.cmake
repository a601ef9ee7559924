# SPDX-License-Identifier: MIT
# Installs build/ into a fresh folder, then configures, builds and runs examples/ against that copy alone.
# Variables: BUILD, SOURCE, STAGE, GENERATOR, MAKE_PROGRAM, CXX, CMAKE_CTEST_COMMAND.
file(REMOVE_RECURSE ${STAGE})
function(run)
  execute_process(COMMAND ${ARGV} RESULT_VARIABLE failed OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(failed)
    list(JOIN ARGV " " command)
    message(FATAL_ERROR "${command}\n${output}")
  endif()
endfunction()
run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${STAGE}/usr --component tilewright)
run(${CMAKE_COMMAND} -S ${SOURCE}/examples -B ${STAGE}/examples -G ${GENERATOR} -DCMAKE_MAKE_PROGRAM=${MAKE_PROGRAM}
    -DCMAKE_CXX_COMPILER=${CXX} -DCMAKE_PREFIX_PATH=${STAGE}/usr -DCMAKE_BUILD_TYPE=Release)
run(${CMAKE_COMMAND} --build ${STAGE}/examples)
run(${CMAKE_CTEST_COMMAND} --test-dir ${STAGE}/examples --output-on-failure --no-tests=error)
