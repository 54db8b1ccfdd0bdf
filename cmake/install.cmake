# `cmake --install build --component vsa_development`: headers, both libraries, and what
# find_package(vsa) and pkg-config need to find them.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(VSA_CONFIG_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/vsa)
install(TARGETS vsa vsa_shared EXPORT vsaTargets COMPONENT vsa_development
        INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT vsa_development
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT vsa_development)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/vsa COMPONENT vsa_development
        DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT vsaTargets NAMESPACE vsa:: DESTINATION ${VSA_CONFIG_DIR} COMPONENT vsa_development)

configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/vsaConfig.cmake.in vsaConfig.cmake
                              INSTALL_DESTINATION ${VSA_CONFIG_DIR})
write_basic_package_version_file(vsaConfigVersion.cmake COMPATIBILITY SameMinorVersion)
file(RELATIVE_PATH VSA_PC_TO_PREFIX ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
configure_file(${PROJECT_SOURCE_DIR}/cmake/vsa.pc.in vsa.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/vsaConfig.cmake
              ${CMAKE_CURRENT_BINARY_DIR}/vsaConfigVersion.cmake
        DESTINATION ${VSA_CONFIG_DIR} COMPONENT vsa_development)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/vsa.pc
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT vsa_development)
