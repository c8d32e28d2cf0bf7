# find_package(Heddle) gives
#
#   Heddle::heddle      the command
#   Heddle::Heddle      heddle.h, for programs that open libraries with heddle_open
#   heddle_add_model    compiles a model when the project is built
#
# heddle_add_model(TARGET MODEL path
#                  [NAME name] [MODEL_FILE file.heddle] [CONFIG path|name] [WEIGHTS path] [SET K=V...]
#                  [CPU target] [PRECISION precision] [STATIC] [EMBED_WEIGHTS] [OPTIONS word...])
#
# compiles MODEL, a .heddle file or a Hugging Face folder, and compiles it again when the model, a file that it uses, its
# configuration, its weights or the compiler has changed. Where TARGET is a program or library of the project, it is
# linked with the model and finds <name>.h; several models may be added to one. Otherwise TARGET becomes a library to
# link with. NAME is the library's name: by default the model file's, or the new TARGET's. A program finds the weights
# with <name>_load(NULL, &model). The other words are the command's options: MODEL_FILE is --model, CPU --target, STATIC
# --emit a, and OPTIONS go to it as they are. What to install is the property HEDDLE_FILES of the library, which is
# called <TARGET>_<name>, or as the new TARGET.
get_filename_component(_heddle_prefix "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
if(NOT TARGET Heddle::heddle)
  add_executable(Heddle::heddle IMPORTED GLOBAL)
  set_target_properties(Heddle::heddle PROPERTIES IMPORTED_LOCATION "${_heddle_prefix}/bin/heddle")
  add_library(Heddle::Heddle INTERFACE IMPORTED GLOBAL)
  set_target_properties(Heddle::Heddle PROPERTIES INTERFACE_INCLUDE_DIRECTORIES "${_heddle_prefix}/include"
                                                  INTERFACE_LINK_LIBRARIES "${CMAKE_DL_LIBS}")
endif()
unset(_heddle_prefix)

function(heddle_add_model target)
  set(options STATIC EMBED_WEIGHTS)
  set(values MODEL NAME MODEL_FILE CONFIG WEIGHTS CPU PRECISION)
  cmake_parse_arguments(PARSE_ARGV 1 arg "${options}" "${values}" "SET;OPTIONS")
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "heddle_add_model(${target}): unknown words: ${arg_UNPARSED_ARGUMENTS}")
  endif()
  if(NOT arg_MODEL)
    message(FATAL_ERROR "heddle_add_model(${target}): say MODEL, a .heddle file or a Hugging Face folder")
  endif()

  # Paths as the project's author means them: beside the CMakeLists.txt. The name of a preset is no path.
  foreach(path MODEL MODEL_FILE CONFIG WEIGHTS)
    if(arg_${path})
      get_filename_component(whole "${arg_${path}}" ABSOLUTE)
      if(EXISTS "${whole}" OR NOT path STREQUAL CONFIG)
        set(arg_${path} "${whole}")
      endif()
    endif()
  endforeach()
  if(NOT arg_NAME)
    if(NOT TARGET ${target})
      string(MAKE_C_IDENTIFIER "${target}" arg_NAME)
    elseif(arg_MODEL_FILE)
      get_filename_component(arg_NAME "${arg_MODEL_FILE}" NAME_WE)
    elseif(arg_MODEL MATCHES "\\.heddle$")
      get_filename_component(arg_NAME "${arg_MODEL}" NAME_WE)
    else()
      message(FATAL_ERROR "heddle_add_model(${target}): say NAME, which a folder does not tell")
    endif()
    string(TOLOWER "${arg_NAME}" arg_NAME)
  endif()
  set(name ${arg_NAME})
  set(folder "${CMAKE_CURRENT_BINARY_DIR}/heddle/${target}/${name}")
  file(MAKE_DIRECTORY "${folder}")

  set(words compile "${arg_MODEL}" -o "${folder}" --name ${name} --depfile "${folder}.d")
  foreach(pair "MODEL_FILE|--model" "CONFIG|--config" "WEIGHTS|--weights" "CPU|--target" "PRECISION|--precision")
    string(REPLACE "|" ";" pair "${pair}")
    list(GET pair 0 word)
    list(GET pair 1 option)
    if(arg_${word})
      list(APPEND words ${option} "${arg_${word}}")
    endif()
  endforeach()
  foreach(setting IN LISTS arg_SET)
    list(APPEND words --set "${setting}")
  endforeach()
  set(library "${folder}/lib${name}.so")
  set(kind SHARED)
  if(arg_STATIC)
    set(library "${folder}/lib${name}.a")
    set(kind STATIC)
    list(APPEND words --emit a)
  endif()
  set(made "${folder}/${name}.h" "${folder}/heddle.h" "${folder}/${name}.json" "${folder}/${name}.pc")
  set(files "${library}")
  if(arg_EMBED_WEIGHTS)
    list(APPEND words --embed-weights)
  else()
    list(APPEND made "${folder}/${name}.weights")
    list(APPEND files "${folder}/${name}.weights")
  endif()
  add_custom_command(OUTPUT "${library}" BYPRODUCTS ${made} COMMAND Heddle::heddle ${words} ${arg_OPTIONS}
    DEPENDS Heddle::heddle DEPFILE "${folder}.d" COMMENT "Compiling ${name} with Heddle" VERBATIM)

  set(model ${target})
  if(TARGET ${target})
    set(model ${target}_${name})
  endif()
  add_custom_target(${model}_heddle DEPENDS "${library}")
  add_library(${model} ${kind} IMPORTED GLOBAL)
  add_dependencies(${model} ${model}_heddle)
  set_target_properties(${model} PROPERTIES IMPORTED_LOCATION "${library}" INTERFACE_INCLUDE_DIRECTORIES "${folder}"
                                            HEDDLE_FILES "${files}")
  if(arg_STATIC)
    find_package(Threads REQUIRED)
    set_target_properties(${model} PROPERTIES INTERFACE_LINK_LIBRARIES "Threads::Threads;${CMAKE_DL_LIBS};m")
    if(NOT arg_EMBED_WEIGHTS AND NOT model STREQUAL target) # the weights are looked for beside the program
      add_custom_command(TARGET ${target} POST_BUILD VERBATIM
        COMMAND ${CMAKE_COMMAND} -E copy_if_different "${folder}/${name}.weights" "$<TARGET_FILE_DIR:${target}>")
    endif()
  else()
    set_target_properties(${model} PROPERTIES IMPORTED_SONAME "lib${name}.so" INTERFACE_LINK_LIBRARIES "${CMAKE_DL_LIBS}")
  endif()
  if(NOT model STREQUAL target)
    target_link_libraries(${target} PRIVATE ${model})
  endif()
endfunction()
