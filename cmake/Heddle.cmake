# How this project's libraries are put together.

# heddle_library(NAME FOLDERS dir... [LINK lib...] [MLIR | LLVM])
# Every .cc of the folders. LLVM: sees LLVM's headers. MLIR: also compiled with the precompiled header of
# MLIR (one for all such libraries), without which each file takes 20 s instead of 3.
function(heddle_library name)
  cmake_parse_arguments(arg "MLIR;LLVM" "" "FOLDERS;LINK" ${ARGN})
  set(patterns)
  foreach(folder ${arg_FOLDERS})
    list(APPEND patterns ${CMAKE_SOURCE_DIR}/${folder}/*.cc)
  endforeach()
  file(GLOB sources CONFIGURE_DEPENDS ${patterns})
  if(NOT sources)
    file(WRITE ${CMAKE_BINARY_DIR}/empty/${name}.cc "")
    set(sources ${CMAKE_BINARY_DIR}/empty/${name}.cc)
  endif()
  add_library(${name} STATIC ${sources})
  target_link_libraries(${name} PUBLIC ${arg_LINK})
  # MLIR and LLVM are words of this function, so a library that names one of them also links it.
  if(arg_MLIR)
    target_link_libraries(${name} PUBLIC MLIR LLVM)
  elseif(arg_LLVM)
    target_link_libraries(${name} PUBLIC LLVM)
  endif()
  if(arg_MLIR OR arg_LLVM)
    target_include_directories(${name} SYSTEM PUBLIC ${LLVM_INCLUDE_DIRS} ${MLIR_INCLUDE_DIRS} ${LLD_INCLUDE_DIRS})
  endif()
  if(arg_MLIR)
    target_compile_options(${name} PRIVATE -Xclang -fno-pch-timestamp -fpch-instantiate-templates)
    if(NOT TARGET heddle_mlir_pch)
      file(WRITE ${CMAKE_BINARY_DIR}/empty/mlir_pch.cc "")
      add_library(heddle_mlir_pch OBJECT ${CMAKE_BINARY_DIR}/empty/mlir_pch.cc)
      target_include_directories(heddle_mlir_pch SYSTEM PUBLIC ${LLVM_INCLUDE_DIRS} ${MLIR_INCLUDE_DIRS} ${LLD_INCLUDE_DIRS})
      target_compile_options(heddle_mlir_pch PRIVATE -Xclang -fno-pch-timestamp -fpch-instantiate-templates)
      heddle_share_pch(heddle_mlir_pch compiler/ir/mlir_pch.h)
    endif()
    target_precompile_headers(${name} REUSE_FROM heddle_mlir_pch)
  endif()
endfunction()

# heddle_share_pch(TARGET header.h): the target's precompiled header, such that ccache shares what is compiled with it
# between clones. The file itself has whole paths in it, and so has CMake's way to name it: ccache looks at a checksum of
# what it is made from instead (CCACHE_PCH_EXTSUM, which ./dev sets).
set(CMAKE_CXX_COMPILE_OPTIONS_USE_PCH -Xclang -include-pch -Xclang <PCH_FILE>)
function(heddle_share_pch target header)
  target_precompile_headers(${target} PRIVATE <${header}>)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${header})
  file(SHA256 ${CMAKE_SOURCE_DIR}/${header} content)
  file(WRITE ${CMAKE_BINARY_DIR}/CMakeFiles/${target}.dir/cmake_pch.hxx.pch.sum "${content} ${LLVM_PACKAGE_VERSION}\n")
endfunction()

# heddle_tablegen(TARGET file.td): the declarations and definitions of a dialect, beside the build's headers.
function(heddle_tablegen target td)
  if(NOT EXISTS ${CMAKE_SOURCE_DIR}/${td})
    return()
  endif()
  cmake_path(GET td STEM stem)
  cmake_path(GET td PARENT_PATH folder)
  file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/${folder})
  set(outputs)
  foreach(kind dialect enum op attr)
    foreach(half decls defs)
      if(kind STREQUAL attr)
        set(generator -gen-attrdef-${half} -attrdefs-dialect=heddle)
      else()
        set(generator -gen-${kind}-${half})
      endif()
      set(out ${CMAKE_BINARY_DIR}/${folder}/${stem}_${kind}_${half}.inc)
      add_custom_command(OUTPUT ${out}
        COMMAND ${LLVM_TOOLS_BINARY_DIR}/mlir-tblgen ${generator} -I ${MLIR_INCLUDE_DIRS} -I ${CMAKE_SOURCE_DIR}
                ${CMAKE_SOURCE_DIR}/${td} -o ${out}
        DEPENDS ${CMAKE_SOURCE_DIR}/${td} COMMENT "Generating ${stem}_${kind}_${half}.inc")
      list(APPEND outputs ${out})
    endforeach()
  endforeach()
  add_custom_target(${target}_tablegen DEPENDS ${outputs})
  add_dependencies(${target} ${target}_tablegen)
  if(TARGET heddle_mlir_pch)
    add_dependencies(heddle_mlir_pch ${target}_tablegen)
  endif()
endfunction()

# heddle_embed(TARGET name pattern...): the files' bytes inside the target, as heddle::embedded::name()
# (a std::span of EmbeddedFile, declared in the generated header embedded/<name>.h).
function(heddle_embed target name)
  set(files)
  foreach(pattern ${ARGN})
    if(IS_ABSOLUTE ${pattern}) # a product of the build
      list(APPEND files ${pattern})
    else()
      file(GLOB found CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/${pattern})
      list(APPEND files ${found})
    endif()
  endforeach()
  set(base ${CMAKE_BINARY_DIR}/embedded/${name})
  file(WRITE ${base}.h.in "// Generated: files carried inside the program.
#pragma once
#include <span>
#include <string_view>
#ifndef HEDDLE_EMBEDDED_FILE
#define HEDDLE_EMBEDDED_FILE
namespace heddle { struct EmbeddedFile { std::string_view path, bytes; }; }
#endif
namespace heddle::embedded { std::span<const EmbeddedFile> ${name}(); }
")
  configure_file(${base}.h.in ${base}.h COPYONLY)
  set(arrays "")
  set(rows "")
  set(count 0)
  foreach(file ${files})
    string(APPEND arrays "static constexpr char file_${count}[] = {\n#embed \"${file}\" suffix(,)\n0};\n")
    cmake_path(RELATIVE_PATH file BASE_DIRECTORY ${CMAKE_SOURCE_DIR} OUTPUT_VARIABLE relative)
    string(APPEND rows "  {\"${relative}\", {file_${count}, sizeof file_${count} - 1}},\n")
    math(EXPR count "${count} + 1")
  endforeach()
  if(count EQUAL 0)
    set(body "std::span<const EmbeddedFile> ${name}() { return {}; }")
  else()
    set(body "static constexpr EmbeddedFile files[] = {\n${rows}};\nstd::span<const EmbeddedFile> ${name}() { return files; }")
  endif()
  # ccache hashes what a file includes but not what it embeds, and would answer with yesterday's bytes. It never
  # stores a file that has an .incbin in it, not even in a string.
  file(GENERATE OUTPUT ${base}.cc CONTENT "#include \"embedded/${name}.h\"
[[maybe_unused]] static constexpr char never_cached[] = \".incbin \\\"\\\"\";
namespace heddle::embedded {
${arrays}${body}
} // namespace heddle::embedded
")
  target_sources(${target} PRIVATE ${base}.cc)
  set_source_files_properties(${base}.cc PROPERTIES GENERATED TRUE OBJECT_DEPENDS "${files}" SKIP_PRECOMPILE_HEADERS ON
    COMPILE_OPTIONS "-Wno-c23-extensions")
endfunction()

# heddle_tool(NAME source libraries…): a program, where its source exists.
function(heddle_tool name source)
  if(EXISTS ${CMAKE_SOURCE_DIR}/${source})
    add_executable(${name} ${source})
    target_link_libraries(${name} PRIVATE ${ARGN})
    target_include_directories(${name} SYSTEM PRIVATE ${LLVM_INCLUDE_DIRS} ${MLIR_INCLUDE_DIRS})
  endif()
endfunction()
