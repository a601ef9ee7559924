# SPDX-License-Identifier: MIT
# What `cmake --install` puts where, and find_package(tilewright).
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(TILEWRIGHT_CMAKE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/tilewright)
# Public headers name a few freestanding headers that kernels share; those keep their own root.
set(TILEWRIGHT_SHARED_HEADERS_DIR ${CMAKE_INSTALL_INCLUDEDIR}/tilewright/kernels)

install(TARGETS tilewright EXPORT tilewrightTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT tilewright)
target_include_directories(tilewright PUBLIC $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>
                                             $<INSTALL_INTERFACE:${TILEWRIGHT_SHARED_HEADERS_DIR}>)
install(DIRECTORY include/tilewright DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT tilewright)
install(DIRECTORY kernels/ DESTINATION ${TILEWRIGHT_SHARED_HEADERS_DIR} COMPONENT tilewright FILES_MATCHING
        REGEX "/tile/common/[^/]+\\.hpp$" REGEX "_args\\.hpp$")
if(TARGET tilewright_program)
  install(TARGETS tilewright_program RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT tilewright)
  install(PROGRAMS scripts/peer_torch.py DESTINATION ${CMAKE_INSTALL_DATADIR}/tilewright COMPONENT tilewright)
  install(FILES scripts/peer_torch_rows.py scripts/peer_torch_gpu.py DESTINATION ${CMAKE_INSTALL_DATADIR}/tilewright
          COMPONENT tilewright)
endif()
foreach(folder IN ITEMS models tuned)
  if(EXISTS ${PROJECT_SOURCE_DIR}/${folder})
    install(DIRECTORY ${folder} DESTINATION ${CMAKE_INSTALL_DATADIR}/tilewright COMPONENT tilewright)
  endif()
endforeach()
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/tilewright COMPONENT tilewright)

install(EXPORT tilewrightTargets NAMESPACE tilewright:: DESTINATION ${TILEWRIGHT_CMAKE_DIR} COMPONENT tilewright)
configure_package_config_file(cmake/tilewrightConfig.cmake.in ${CMAKE_BINARY_DIR}/tilewrightConfig.cmake
                              INSTALL_DESTINATION ${TILEWRIGHT_CMAKE_DIR} NO_SET_AND_CHECK_MACRO
                              NO_CHECK_REQUIRED_COMPONENTS_MACRO)
# Before 1.0 a minor version may change the C++ API; the C ABI has its own version.
write_basic_package_version_file(${CMAKE_BINARY_DIR}/tilewrightConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/tilewrightConfig.cmake ${CMAKE_BINARY_DIR}/tilewrightConfigVersion.cmake
        DESTINATION ${TILEWRIGHT_CMAKE_DIR} COMPONENT tilewright)
