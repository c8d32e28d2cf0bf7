# `cmake --install build --prefix P`: the command with the shared libraries that it runs with, the header, the CMake
# package, completion for shells, the manual page. Nothing in P names the build tree or another place, so P may be moved as a whole.
include(GNUInstallDirs)

# MLIR's and LLVM's own run path is $ORIGIN/../lib, hence the folder's name. The command has the older RPATH, which
# also serves what the libraries need in turn.
set(HEDDLE_INSTALL_LIBDIR lib/heddle/lib)
target_link_options(heddle PRIVATE -Wl,--disable-new-dtags)
set_target_properties(heddle PROPERTIES INSTALL_RPATH "$ORIGIN/../${HEDDLE_INSTALL_LIBDIR}")

install(TARGETS heddle RUNTIME DESTINATION bin)
if(TARGET heddle_mpi)
  install(TARGETS heddle_mpi LIBRARY DESTINATION lib/heddle)
endif()
install(FILES runtime/heddle.h DESTINATION include)
install(FILES LICENSE DESTINATION share/doc/heddle)
include(CMakePackageConfigHelpers)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/HeddleConfigVersion.cmake COMPATIBILITY SameMajorVersion)
install(FILES cmake/HeddleConfig.cmake ${CMAKE_BINARY_DIR}/HeddleConfigVersion.cmake DESTINATION lib/cmake/Heddle)
configure_file(cmake/install_libraries.cmake.in ${CMAKE_BINARY_DIR}/install_libraries.cmake @ONLY)
install(SCRIPT ${CMAKE_BINARY_DIR}/install_libraries.cmake)
