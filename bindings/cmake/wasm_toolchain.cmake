# Emscripten for the core, clang for the micro-kernels. Two installations work by the same path:
#   Debian 12   Emscripten 3.1.6, whose own LLVM is 14: a config file selects clang-19 instead
#               (relaxed SIMD and C++20 need LLVM >= 17),
#   newer       em++ on the PATH with LLVM >= 17 (emsdk, Debian 13): taken as it is.

set(CMAKE_SYSTEM_NAME Generic)
set(CMAKE_SYSTEM_PROCESSOR wasm32)
set(REQUANT_WASM ON)

find_program(REQUANT_EMXX em++ REQUIRED)
find_program(REQUANT_NODE NAMES node nodejs REQUIRED)
find_program(REQUANT_CCACHE ccache)
# npm_node_execpath: the Node that runs the build script, which need not be the one on the PATH.
if(DEFINED ENV{REQUANT_NODE})
  set(REQUANT_NODE $ENV{REQUANT_NODE})
endif()

set(REQUANT_EM_ENV)
if(NOT REQUANT_EM_VERSION)
  execute_process(COMMAND ${REQUANT_EMXX} -dM -E -x c++ /dev/null
                  OUTPUT_VARIABLE macros ERROR_QUIET)
  string(REGEX MATCH "__clang_major__ ([0-9]+)" _ "${macros}")
  set(REQUANT_LLVM_MAJOR "${CMAKE_MATCH_1}" CACHE STRING "LLVM that em++ uses by default")
  execute_process(COMMAND ${REQUANT_EMXX} --version OUTPUT_VARIABLE version ERROR_QUIET)
  string(REGEX MATCH " ([0-9]+\\.[0-9]+\\.[0-9]+)" _ "${version}")
  set(REQUANT_EM_VERSION "${CMAKE_MATCH_1}" CACHE STRING "Version of em++")
  if(NOT REQUANT_LLVM_MAJOR OR NOT REQUANT_EM_VERSION)
    message(FATAL_ERROR "${REQUANT_EMXX} does not say which version it is: does it run?")
  endif()
endif()

if(REQUANT_LLVM_MAJOR GREATER_EQUAL 17)
  # The clang behind em++, under its plain name (emsdk) or with its version (Debian 13).
  get_filename_component(emscripten_root ${REQUANT_EMXX} REALPATH)
  get_filename_component(emscripten_root ${emscripten_root} DIRECTORY)
  find_program(REQUANT_EM_CONFIG NAMES em-config em-config.py HINTS ${emscripten_root} REQUIRED)
  execute_process(COMMAND ${REQUANT_EM_CONFIG} LLVM_ROOT OUTPUT_VARIABLE llvm_root
                  OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  foreach(tool CLANGXX:clang++ WASM_LD:wasm-ld NM:llvm-nm)
    string(REGEX MATCH "^(.*):(.*)$" _ ${tool})
    find_program(REQUANT_${CMAKE_MATCH_1} REQUIRED NO_DEFAULT_PATH PATHS ${llvm_root}
                 NAMES ${CMAKE_MATCH_2}-${REQUANT_LLVM_MAJOR} ${CMAKE_MATCH_2})
  endforeach()
  execute_process(COMMAND ${REQUANT_EM_CONFIG} BINARYEN_ROOT OUTPUT_VARIABLE binaryen_root
                  OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  find_program(REQUANT_WASM_SPLIT wasm-split REQUIRED HINTS ${binaryen_root}/bin)
else()
  find_program(REQUANT_CLANGXX clang++-19 REQUIRED)
  find_program(REQUANT_WASM_SPLIT wasm-split REQUIRED)
  find_program(REQUANT_WASM_LD wasm-ld-19 REQUIRED)
  find_program(REQUANT_NM llvm-nm-19 REQUIRED)
  get_filename_component(llvm_root ${REQUANT_CLANGXX} DIRECTORY)
  get_filename_component(emscripten_root ${REQUANT_EMXX} REALPATH)
  if(EXISTS /usr/share/emscripten/emcc.py)
    set(emscripten_root /usr/share/emscripten)
  else()
    get_filename_component(emscripten_root ${emscripten_root} DIRECTORY)
  endif()
  # CMake reads a toolchain file more than once and try_compile does so from other folders.
  set(em_config ${CMAKE_CURRENT_LIST_DIR}/../../build/em_config.py)
  get_filename_component(em_config ${em_config} ABSOLUTE)
  set(em_config_text "EMSCRIPTEN_ROOT = '${emscripten_root}'
LLVM_ROOT = '${llvm_root}'
LLVM_ADD_VERSION = '19'
CLANG_ADD_VERSION = '19'
BINARYEN_ROOT = '/usr'
NODE_JS = '${REQUANT_NODE}'
FROZEN_CACHE = True
")
  file(CONFIGURE OUTPUT ${em_config} CONTENT "${em_config_text}" @ONLY)
  set(ENV{EM_CONFIG} ${em_config})
  list(APPEND REQUANT_EM_ENV EM_CONFIG=${em_config})
  # Debian keeps acorn, which the Emscripten JS optimizer needs, where only Debian's Node looks.
  if(EXISTS /usr/share/nodejs)
    list(APPEND REQUANT_EM_ENV NODE_PATH=/usr/share/nodejs)
  endif()
endif()

set(CMAKE_CXX_COMPILER ${REQUANT_EMXX})
set(CMAKE_CXX_COMPILER_ID Clang)
set(CMAKE_CXX_COMPILER_VERSION 19)
set(CMAKE_CXX_COMPILER_FORCED ON)
set(CMAKE_CXX_COMPILER_ID_RUN ON)
set(CMAKE_CXX_STANDARD_COMPUTED_DEFAULT 17)
set(CMAKE_CXX20_STANDARD_COMPILE_OPTION -std=c++20)
set(CMAKE_CXX20_EXTENSION_COMPILE_OPTION -std=gnu++20)
set(CMAKE_DEPFILE_FLAGS_CXX "-MD -MT <DEP_TARGET> -MF <DEP_FILE>")

# Every call of em++ needs the environment above, also when ninja is run by hand. ccache keys on the
# compiler's name and time stamp; em++ is a script whose LLVM the config file chooses, so say it.
set(launcher ${CMAKE_COMMAND} -E env ${REQUANT_EM_ENV})
set(CMAKE_CXX_LINKER_LAUNCHER ${launcher})
set(CMAKE_CXX_COMPILER_LAUNCHER ${launcher})
if(REQUANT_CCACHE)
  # Relative to the sources, so that a second clone finds what the first one compiled.
  get_filename_component(source_root ${CMAKE_CURRENT_LIST_DIR}/../.. ABSOLUTE)
  # Sloppiness: what ccache wants where there is a precompiled header.
  list(APPEND CMAKE_CXX_COMPILER_LAUNCHER CCACHE_COMPILERTYPE=clang CCACHE_BASEDIR=${source_root}
       CCACHE_SLOPPINESS=pch_defines,time_macros ${REQUANT_CCACHE})
endif()
