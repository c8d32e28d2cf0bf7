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
# link with. NAME is the library's name: by default the model's or the new TARGET's, as the command spells it. A program finds the weights
# with <name>_load(NULL, &model). The other words are the command's options: MODEL_FILE is --model, CPU --target, STATIC
# --emit a, and OPTIONS go to it as they are. The library is called <TARGET>_<name>, or as the new TARGET. Its property
# HEDDLE_FILES is what to install with a program: a shared library and the weights, which of a static one go beside it.
get_filename_component(_heddle_prefix "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
if(NOT TARGET Heddle::heddle)
  add_executable(Heddle::heddle IMPORTED GLOBAL)
  set_target_properties(Heddle::heddle PROPERTIES IMPORTED_LOCATION "${_heddle_prefix}/bin/heddle")
  add_library(Heddle::Heddle INTERFACE IMPORTED GLOBAL)
  set_target_properties(Heddle::Heddle PROPERTIES INTERFACE_INCLUDE_DIRECTORIES "${_heddle_prefix}/include"
                                                  INTERFACE_LINK_LIBRARIES "${CMAKE_DL_LIBS}")
endif()
unset(_heddle_prefix)

# <name>.weights lies beside what the target builds. `content` tells models apart: another one's can't lie there, too.
function(_heddle_weights_beside target name content)
  get_target_property(type ${target} TYPE)
  set(kind LIBRARY)
  if(type STREQUAL EXECUTABLE)
    set(kind RUNTIME)
  elseif(type STREQUAL STATIC_LIBRARY)
    set(kind ARCHIVE)
  endif()
  get_target_property(folder ${target} BINARY_DIR)
  get_target_property(given ${target} ${kind}_OUTPUT_DIRECTORY)
  if(given)
    get_filename_component(folder "${given}" ABSOLUTE BASE_DIR "${folder}")
  endif()
  string(SHA256 place "${folder}/${name}")
  get_property(there GLOBAL PROPERTY _heddle_${place})
  if(there)
    list(GET there 0 other)
    list(GET there 1 other_content)
    if(NOT content STREQUAL other_content)
      message(FATAL_ERROR "heddle_add_model(${target}): ${name}.weights of ${target} and of ${other}, which differ, would lie "
                          "in one folder, ${folder}: give one of them NAME, or both EMBED_WEIGHTS")
    endif()
  endif()
  set_property(GLOBAL PROPERTY _heddle_${place} ${target} ${content})
endfunction()

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

  foreach(option IN LISTS arg_OPTIONS)
    if(option MATCHES "^(-o|--(output|name|emit|depfile|embed-weights)(=|$))")
      message(FATAL_ERROR "heddle_add_model(${target}): OPTIONS ${option}: what is written, and where, is said by NAME, STATIC "
                          "and EMBED_WEIGHTS")
    endif()
  endforeach()
  if(TARGET ${target})
    get_target_property(type ${target} TYPE)
    get_target_property(imported ${target} IMPORTED)
    if(imported OR NOT type MATCHES "^(EXECUTABLE|(STATIC|SHARED|MODULE|OBJECT)_LIBRARY)$")
      message(FATAL_ERROR "heddle_add_model(${target}): there is a target ${target} already, which is no program or library that this "
                          "project compiles: call the model's own library otherwise, and link with that")
    endif()
  endif()

  # Paths as the project's author means them: beside the CMakeLists.txt.
  foreach(path MODEL MODEL_FILE WEIGHTS)
    if(arg_${path})
      get_filename_component(arg_${path} "${arg_${path}}" ABSOLUTE)
    endif()
  endforeach()
  # A configuration may be the name of a preset beside the model file, as the command understands it.
  set(model_file "${arg_MODEL}")
  if(arg_MODEL_FILE)
    set(model_file "${arg_MODEL_FILE}")
  endif()
  if(arg_CONFIG)
    get_filename_component(beside "${model_file}" DIRECTORY)
    get_filename_component(whole "${arg_CONFIG}" ABSOLUTE)
    if(arg_CONFIG MATCHES "\\.json$" OR EXISTS "${whole}" AND NOT EXISTS "${beside}/presets/${arg_CONFIG}.json")
      set(arg_CONFIG "${whole}")
    endif()
  endif()
  if(NOT arg_NAME)
    if(NOT TARGET ${target})
      set(model_file "${target}.heddle")
    endif()
    get_target_property(command Heddle::heddle IMPORTED_LOCATION)
    execute_process(COMMAND "${command}" compile "${model_file}" --print-name OUTPUT_VARIABLE arg_NAME ERROR_VARIABLE error
                    OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_STRIP_TRAILING_WHITESPACE)
    if(NOT arg_NAME)
      message(FATAL_ERROR "heddle_add_model(${target}): without NAME, the model says the name: ${error}")
    endif()
  endif()
  set(name ${arg_NAME})
  set(folder "${CMAKE_CURRENT_BINARY_DIR}/heddle/${target}/${name}")
  file(MAKE_DIRECTORY "${folder}")

  set(asked "${arg_MODEL}")
  foreach(pair "MODEL_FILE|--model" "CONFIG|--config" "WEIGHTS|--weights" "CPU|--target" "PRECISION|--precision")
    string(REPLACE "|" ";" pair "${pair}")
    list(GET pair 0 word)
    list(GET pair 1 option)
    if(arg_${word})
      list(APPEND asked ${option} "${arg_${word}}")
    endif()
  endforeach()
  foreach(setting IN LISTS arg_SET)
    list(APPEND asked --set "${setting}")
  endforeach()
  set(words compile ${asked} -o "${folder}" --name ${name} --depfile "${folder}.d")
  set(library "${folder}/lib${name}.so")
  set(kind SHARED)
  set(files "${library}")
  if(arg_STATIC)
    set(library "${folder}/lib${name}.a")
    set(kind STATIC)
    set(files)
    list(APPEND words --emit a)
  endif()
  set(made "${folder}/${name}.h" "${folder}/heddle.h" "${folder}/${name}.json" "${folder}/${name}.pc")
  if(arg_EMBED_WEIGHTS)
    list(APPEND words --embed-weights)
  else()
    list(APPEND made "${folder}/${name}.weights")
    list(APPEND files "${folder}/${name}.weights")
  endif()
  add_custom_command(OUTPUT "${library}" BYPRODUCTS ${made} COMMAND Heddle::heddle ${words} ${arg_OPTIONS}
    DEPENDS Heddle::heddle DEPFILE "${folder}.d" COMMENT "Compiling ${name} with Heddle" VERBATIM)

  set(model ${target})
  set(all ALL) # as of any library of the project, whether or not something links with it
  if(TARGET ${target})
    set(model ${target}_${name})
    set(all)
    if(TARGET ${model})
      message(FATAL_ERROR "heddle_add_model(${target}): there is a target ${model} already: give the model another NAME")
    endif()
  endif()
  add_custom_target(${model}_heddle ${all} DEPENDS "${library}")
  add_library(${model} ${kind} IMPORTED GLOBAL)
  add_dependencies(${model} ${model}_heddle)
  set_target_properties(${model} PROPERTIES IMPORTED_LOCATION "${library}" INTERFACE_INCLUDE_DIRECTORIES "${folder}"
                                            HEDDLE_FILES "${files}")
  if(arg_STATIC)
    find_package(Threads REQUIRED)
    set_target_properties(${model} PROPERTIES INTERFACE_LINK_LIBRARIES "Threads::Threads;${CMAKE_DL_LIBS};m")
    if(NOT arg_EMBED_WEIGHTS AND NOT model STREQUAL target) # the weights are looked for beside the program
      get_target_property(from ${target} SOURCE_DIR)
      if(type STREQUAL OBJECT_LIBRARY OR NOT from STREQUAL CMAKE_CURRENT_SOURCE_DIR)
        message(FATAL_ERROR "heddle_add_model(${target}): a static model's weights are copied beside a program, or a library "
                            "that is linked, by the CMakeLists.txt that adds it: add the model there, or say EMBED_WEIGHTS")
      endif()
      add_custom_command(TARGET ${target} POST_BUILD VERBATIM
        COMMAND ${CMAKE_COMMAND} -E copy_if_different "${folder}/${name}.weights" "$<TARGET_FILE_DIR:${target}>")
      string(SHA256 content "${asked};${arg_OPTIONS}")
      # When the whole project has been read, for its folder may be set later; by EVAL, which fills the words in now.
      cmake_language(EVAL CODE "cmake_language(DEFER DIRECTORY [[${CMAKE_SOURCE_DIR}]]
                                               CALL _heddle_weights_beside [[${target}]] ${name} ${content})")
    endif()
  else()
    set_target_properties(${model} PROPERTIES IMPORTED_SONAME "lib${name}.so" INTERFACE_LINK_LIBRARIES "${CMAKE_DL_LIBS}")
  endif()
  if(NOT model STREQUAL target)
    target_link_libraries(${target} PRIVATE ${model})
  endif()
endfunction()
