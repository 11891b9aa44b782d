# The wasm modules. For each variant {simd128, relaxed}:
#
#   src/**, bindings/**      --em++-->           core.wasm + core.js     (Embind, one core for both)
#   src/kernels/**/vector*.cpp --clang, wasm-ld--> kernels-<variant>.wasm  (freestanding, checked),
#                                      dist/requant-lowbits-<variant>.wasm (low_bits_sources.txt)
#   core.wasm                --wasm-split--> main.wasm + dist/requant-operators.wasm (operators_sources.txt)
#                                                      + dist/requant-tools.wasm (tools_sources.txt)
#   main + kernels           --wasm-merge, wasm-opt--> dist/requant-<variant>.wasm
#   the same, memory shared  --share_memory.mjs--> dist/requant-<variant>-threads.wasm
#   all kernels, the same    --share_memory.mjs--> dist/kernels-<variant>-threads.wasm
#   the others, too          --share_memory.mjs--> dist/requant-tools-threads.wasm, ...
#
# em++ alone does not suffice: the Binaryen of Debian's Emscripten cannot read relaxed SIMD, and the
# core need not be compiled twice. The merged module has one memory and calls the kernels directly.

set(wasm_features --enable-simd --enable-bulk-memory --enable-sign-ext --enable-mutable-globals
    --enable-nontrapping-float-to-int --enable-multivalue --enable-reference-types
    --enable-exception-handling)

set(scripts ${PROJECT_SOURCE_DIR}/web/scripts)
set(module_scripts ${scripts}/modules)
set(binaryen ${PROJECT_SOURCE_DIR}/node_modules/binaryen/bin)
set(dist ${PROJECT_SOURCE_DIR}/dist)
file(MAKE_DIRECTORY ${dist})
# In npm's binaryen, wasm-merge and wasm-opt are scripts for Node.
set(wasm_merge ${REQUANT_NODE} ${binaryen}/wasm-merge)
set(wasm_opt ${REQUANT_NODE} ${binaryen}/wasm-opt)

# protozero and flatbuffers are read as headers only; the rest of /usr/include must stay off a cross-compiler's path.
set(private_include ${PROJECT_BINARY_DIR}/include)
find_path(PROTOZERO_INCLUDE protozero/pbf_reader.hpp PATHS /usr/include NO_CMAKE_FIND_ROOT_PATH)
file(MAKE_DIRECTORY ${private_include})
if(PROTOZERO_INCLUDE)
  file(CREATE_LINK ${PROTOZERO_INCLUDE}/protozero ${private_include}/protozero SYMBOLIC)
endif()
find_path(FLATBUFFERS_INCLUDE flatbuffers/verifier.h PATHS /usr/include NO_CMAKE_FIND_ROOT_PATH)
if(FLATBUFFERS_INCLUDE)
  file(CREATE_LINK ${FLATBUFFERS_INCLUDE}/flatbuffers ${private_include}/flatbuffers SYMBOLIC)
endif()

# A page waits for code that has not run yet, because engines compile a function at its first call.
# So accessors of a few instructions are inlined, even if that copies them (a quarter less time
# until a model is ready; a limit of 6 instead of 4 instructions adds 1.7 kB), and large functions,
# which may never be called, are not.
# The effects of functions on memory and globals are analyzed first, so that more calls and loads
# turn out to be useless.
# Data stays in one piece: the memory-packing pass would leave out every run of zeros, and the 740
# segments in between compress to 1.7 kB more.
set(module_options --generate-global-effects -Os --converge --dae-optimizing --always-inline-max-function-size 4
    --one-caller-inline-max-function-size 30
    --skip-pass=memory-packing --strip-producers --strip-target-features)

# --- The core ------------------------------------------------------------------------------------
file(GLOB_RECURSE core_sources CONFIGURE_DEPENDS src/*.cpp bindings/*.cpp)
file(GLOB_RECURSE kernel_sources CONFIGURE_DEPENDS src/kernels/vector*.cpp)
# The kernels of the tools and of the operators are part of the core. Threads get them with the other kernels.
file(GLOB late_kernel_sources CONFIGURE_DEPENDS src/gradient/*.cpp src/kernels/*/late_vector*.cpp)
list(FILTER late_kernel_sources EXCLUDE REGEX "late_functions")
if(kernel_sources)
  list(REMOVE_ITEM core_sources ${kernel_sources})
endif()

add_executable(core ${core_sources})

# Sets options for some of the core's sources: optimize_sources(<files> OPTIONS <options>). CMake
# accepts properties of files that no target has, so a source that moved would silently lose its
# options.
function(optimize_sources)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "" OPTIONS)
  if(NOT arg_UNPARSED_ARGUMENTS OR NOT arg_OPTIONS)
    message(FATAL_ERROR "optimize_sources() needs files and, after OPTIONS, compiler options.")
  endif()
  foreach(source IN LISTS arg_UNPARSED_ARGUMENTS)
    cmake_path(ABSOLUTE_PATH source BASE_DIRECTORY ${PROJECT_SOURCE_DIR} OUTPUT_VARIABLE absolute)
    if(NOT absolute IN_LIST core_sources)
      message(FATAL_ERROR "wasm.cmake sets options for ${source}, which is no source of the core. "
                          "Name the file where it is now, or take it off the list.")
    endif()
  endforeach()
  # A precompiled header depends on the options that it was compiled with.
  set_source_files_properties(${arg_UNPARSED_ARGUMENTS} PROPERTIES COMPILE_OPTIONS "${arg_OPTIONS}"
                              SKIP_PRECOMPILE_HEADERS ON)
endfunction()

# em++ is a Python script that calls clang with more options; starting it takes as long as compiling
# a small source. This asks em++ once which command it calls for `options`, and lets CMake call that
# command. If the answer is not understood, em++ compiles.
function(compile_without_wrapper)
  set(empty ${PROJECT_BINARY_DIR}/empty.cpp)
  set(made ${PROJECT_BINARY_DIR}/empty.o)
  file(WRITE ${empty} "int empty;\n")
  set(begin -DREQUANT_BEGIN)
  set(end -DREQUANT_END)
  execute_process(
    COMMAND ${CMAKE_COMMAND} -E env ${REQUANT_EM_ENV} ${REQUANT_EMXX} ${begin} ${ARGN} ${end} -v
            -c ${empty} -o ${made}
    OUTPUT_VARIABLE said ERROR_VARIABLE said)
  string(JOIN " " given ${begin} ${ARGN} ${end})
  set(known FALSE)
  if(said MATCHES "^ *\"?([^\" ]*clang[^\" ]*)\"? ([^\n]*) ?${given} ([^\n]*)\n")
    set(clang ${CMAKE_MATCH_1})
    set(before ${CMAKE_MATCH_2})
    set(after ${CMAKE_MATCH_3})
    foreach(word -v -c ${empty} -o ${made})
      string(REPLACE "${word}" "" after "${after}")
    endforeach()
    string(STRIP "${after}" after)
    if(after STREQUAL "" AND EXISTS ${clang})
      set(known TRUE)
    endif()
  endif()
  if(NOT known)
    message(STATUS "em++ compiles the core itself: its call of clang is not understood")
    return()
  endif()
  set(CMAKE_CXX_COMPILE_OBJECT
      "${clang} ${before} <DEFINES> <INCLUDES> <FLAGS> -o <OBJECT> -c <SOURCE>" PARENT_SCOPE)
endfunction()

# The parts of the core that compute for seconds. -Oz makes em++ forbid inlining, even of std::min and
# also at -O3, and without inlining no loop is vectorized. A loop that calls accessors is worse than
# slow: JavaScriptCore computed wrong addresses in some (docs/notes/2026-11-30-webkit-accessors.md).
set(recover src/quant/recover)
set(observers src/quant/observers)
file(GLOB simulator_sources CONFIGURE_DEPENDS src/quant/sim/*.cpp)
list(FILTER simulator_sources EXCLUDE REGEX /elements.cpp)
optimize_sources(${simulator_sources} ${late_kernel_sources} ${recover}/learn/soft_rounding.cpp
  ${recover}/learn/sequential_rounding.cpp
  ${recover}/weights/round_weights.cpp ${observers}/histogram.cpp ${observers}/kl.cpp
  ${observers}/moments.cpp ${observers}/moving_average.cpp ${observers}/mse.cpp
  ${observers}/scan.cpp src/quant/grid/block_grid.cpp src/quant/grid/lattice.cpp
  src/quant/weights/blocks.cpp
  OPTIONS -O2 -msimd128 -finline-functions -fno-unroll-loops -mllvm -inline-threshold=10)
# Products of few rows, which have no kernel.
optimize_sources(src/plan/lower/product/few_rows.cpp OPTIONS -O3 -msimd128)
# The means and ranges of keys and values.
optimize_sources(src/plan/lower/sequence/column_ranges.cpp OPTIONS -O2 -msimd128)
# Operators without a kernel, which loop over floats.
set(ops src/ops)
optimize_sources(${ops}/attention/attention_head.cpp ${ops}/elementwise/activation.cpp
                 ${ops}/elementwise/float_loops.cpp ${ops}/elementwise/float_sine.cpp
                 ${ops}/elementwise/float_tests.cpp
                 ${ops}/normalization/normalize_groups.cpp
  OPTIONS -O2 -msimd128 -finline-functions -fno-unroll-loops -mllvm -inline-threshold=10)
# Cast has the instructions that saturate.
optimize_sources(${ops}/elementwise/cast_loops.cpp OPTIONS -mnontrapping-fptoint)
# Loops in intrinsics, which consist of small functions.
set(lower src/plan/lower)
file(GLOB wide_sources CONFIGURE_DEPENDS ${lower}/wide/*.cpp)
optimize_sources(${wide_sources}
  OPTIONS -O2 -msimd128 -finline-functions -fno-unroll-loops -mllvm -inline-threshold=10)
# Loops in intrinsics, which -O3 makes no faster.
optimize_sources(${observers}/product_sums.cpp
                 ${lower}/elementwise/cast.cpp ${lower}/product/dynamic_quantize.cpp
                 ${lower}/product/row_codes.cpp OPTIONS -msimd128)
# Code that walks over every weight while a model is loaded.
set(conv src/kernels/conv)
optimize_sources(${conv}/pack.cpp ${conv}/dot8/pack_bytes.cpp ${conv}/narrow/pack_narrow.cpp
                 ${conv}/winograd/pack_winograd.cpp ${conv}/winograd/pack_winograd_4x3_dot8.cpp
                 ${conv}/winograd/pack_winograd_narrow.cpp src/kernels/dwconv/pack.cpp OPTIONS -O2)
# The packing of products in every run, in intrinsics.
optimize_sources(${conv}/dot8/pack_rows.cpp OPTIONS -O2 -msimd128)
set_target_properties(core PROPERTIES SUFFIX .js)
target_include_directories(core PRIVATE src)
target_include_directories(core SYSTEM PRIVATE ${private_include})
# Assertions are off: their texts contain paths of the build machine, and errors are checked without
# them.
# Without -msimd128, which would move and clear structs by vector instructions: JavaScriptCore
# compiles a function with such instructions before its first call, and makes the caller wait behind
# whatever its compiler thread is optimizing (docs/notes/2026-11-27-webkit-cold-path.md).
set(core_options -Oz -DNDEBUG -mbulk-memory -fwasm-exceptions -fno-rtti
    -DEMSCRIPTEN_HAS_UNBOUND_TYPE_NAMES=0 -Xclang -fno-pch-timestamp)
target_compile_options(core PRIVATE ${core_options})
compile_without_wrapper(${core_options})
# Most sources include most of these headers; precompiling them saves a quarter of the compile time.
target_precompile_headers(core PRIVATE <algorithm> <array> <cmath> <cstdint> <cstring> <functional> <limits>
  <map> <memory> <optional> <set> <span> <string> <string_view> <utility> <vector>)
# Every byte of the core is downloaded, and none of it is hot. The hot kernels are compiled and
# optimized for speed on their own before the merge.
# -O1: at higher levels the link would minify the names of the kernel imports.
# --profiling-funcs, --no-demangle: divide.mjs identifies functions by their names in the objects.
# ENVIRONMENT: the loader of the package passes the bytes, so the same glue code runs in Node as
# well, without Emscripten's Node branch, which needs require() and installs process-wide error
# handlers.
# HEAPU8: newer versions export the views of the memory only on request. The option for the stack's
# size had another name before 3.1.25, which newer versions may drop.
set(stack_option -sSTACK_SIZE=1048576)
if(REQUANT_EM_VERSION VERSION_LESS 3.1.25)
  set(stack_option -sTOTAL_STACK=1048576)
endif()
target_link_options(core PRIVATE
  -O1 -msimd128 --profiling-funcs -Wl,--no-demangle -fwasm-exceptions -fno-rtti -lembind
  -sMODULARIZE=1 -sEXPORT_NAME=createCore -sEXPORT_ES6=1 -sENVIRONMENT=web,worker
  -sALLOW_MEMORY_GROWTH=1 -sMAXIMUM_MEMORY=4294967296 -sABORTING_MALLOC=0
  -sDYNAMIC_EXECUTION=0 -sFILESYSTEM=0 -sASSERTIONS=0 -sERROR_ON_UNDEFINED_SYMBOLS=0
  -sWARN_ON_UNDEFINED_SYMBOLS=0 -sEXPORTED_RUNTIME_METHODS=HEAPU8 ${stack_option}
  -Wl,--export-memory -Wno-version-check)
add_custom_command(
  OUTPUT ${dist}/core.js
  COMMAND ${REQUANT_NODE} ${scripts}/glue.mjs ${PROJECT_BINARY_DIR}/core.js
          ${dist}/core.js
  DEPENDS core ${scripts}/glue.mjs
  VERBATIM)
set(outputs ${dist}/core.js)

# --- The operators and the tools -----------------------------------------------------------------
set(main ${PROJECT_BINARY_DIR}/main.wasm)
set(operators ${dist}/requant-operators.wasm)
set(tools ${dist}/requant-tools.wasm)
set(operators_sources ${CMAKE_CURRENT_LIST_DIR}/operators_sources.txt)
set(tools_sources ${CMAKE_CURRENT_LIST_DIR}/tools_sources.txt)
set(core_objects ${PROJECT_BINARY_DIR}/core_objects.txt)
set(divided ${main} ${PROJECT_BINARY_DIR}/operators.wasm ${PROJECT_BINARY_DIR}/tools.wasm)
file(GENERATE OUTPUT ${core_objects}
     CONTENT "$<JOIN:$<FILTER:$<TARGET_OBJECTS:core>,EXCLUDE,[.]pch$>,\n>\n")
# Accessors are inlined first, since otherwise modules would have to call those of another module.
# share_functions.mjs runs after main is optimized, which merges equal functions.
add_custom_command(
  OUTPUT ${divided}
  COMMAND ${wasm_opt} ${wasm_features} -g --inlining --always-inline-max-function-size 3
          --one-caller-inline-max-function-size 0 --flexible-inline-max-function-size 0
          --remove-unused-module-elements
          ${PROJECT_BINARY_DIR}/core.wasm -o ${PROJECT_BINARY_DIR}/inlined.wasm
  COMMAND ${REQUANT_NODE} ${module_scripts}/divide.mjs --wasm-split ${REQUANT_WASM_SPLIT}
          --nm ${REQUANT_NM} --objects ${core_objects}
          --operators ${operators_sources} --tools ${tools_sources}
          ${PROJECT_BINARY_DIR}/core.wasm ${PROJECT_BINARY_DIR}/inlined.wasm ${divided}
  COMMAND ${REQUANT_NODE} ${module_scripts}/move_data.mjs late ${main}
          ${PROJECT_BINARY_DIR}/operators.wasm
  COMMAND ${wasm_opt} ${wasm_features} -g ${module_options} ${main} -o ${main}
  COMMAND ${REQUANT_NODE} ${module_scripts}/share_functions.mjs ${divided}
  DEPENDS core ${operators_sources} ${tools_sources} ${core_objects} ${module_scripts}/binaryen.mjs
          ${module_scripts}/call_graph.mjs ${module_scripts}/definitions.mjs ${module_scripts}/divide.mjs
          ${module_scripts}/manifest.mjs
          ${module_scripts}/move_data.mjs ${module_scripts}/sections.mjs ${module_scripts}/share_functions.mjs ${module_scripts}/split.mjs
  COMMENT "The core in three parts"
  VERBATIM)
foreach(part operators tools)
  add_custom_command(
    OUTPUT ${dist}/requant-${part}.wasm
    COMMAND ${wasm_opt} ${wasm_features} ${module_options}
            ${PROJECT_BINARY_DIR}/${part}.wasm -o ${dist}/requant-${part}.wasm
    DEPENDS ${PROJECT_BINARY_DIR}/${part}.wasm
    COMMENT "requant-${part}.wasm"
    VERBATIM)
  add_custom_command(
    OUTPUT ${dist}/requant-${part}-threads.wasm
    COMMAND ${REQUANT_NODE} ${module_scripts}/share_memory.mjs ${dist}/requant-${part}.wasm
            ${dist}/requant-${part}-threads.wasm
    DEPENDS ${dist}/requant-${part}.wasm ${module_scripts}/share_memory.mjs ${module_scripts}/sections.mjs
    VERBATIM)
endforeach()
list(APPEND outputs ${operators} ${tools} ${dist}/requant-operators-threads.wasm
     ${dist}/requant-tools-threads.wasm)

# --- The micro-kernels ---------------------------------------------------------------------------
# Kernels get half of the cores: the others work on the core and its parts, which take longer.
cmake_host_system_information(RESULT cores QUERY NUMBER_OF_LOGICAL_CORES)
math(EXPR kernel_jobs "(${cores} + 1) / 2")
set_property(GLOBAL PROPERTY JOB_POOLS kernels=${kernel_jobs})
set(werror)
if(REQUANT_WERROR)
  set(werror -Werror)
endif()
set(kernel_launcher)
if(REQUANT_CCACHE)
  set(kernel_launcher ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} ${REQUANT_CCACHE})
endif()

set(low_bits_list ${CMAKE_CURRENT_LIST_DIR}/low_bits_sources.txt)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${low_bits_list})
file(STRINGS ${low_bits_list} low_bits_sources REGEX "^[^#]")
foreach(prefix IN LISTS low_bits_sources)
  set(found FALSE)
  foreach(source IN LISTS kernel_sources)
    string(FIND ${source} "${PROJECT_SOURCE_DIR}/${prefix}" position)
    if(position EQUAL 0)
      set(found TRUE)
    endif()
  endforeach()
  if(NOT found)
    message(FATAL_ERROR "low_bits_sources.txt names ${prefix}, which no kernel source begins with. "
                        "Name the file or folder where it is now, or take it off the list.")
  endif()
endforeach()

set(kernel_modules)
foreach(variant simd128 relaxed)
  set(isa -msimd128)
  set(variant_features ${wasm_features})
  if(variant STREQUAL relaxed)
    set(isa -msimd128 -mrelaxed-simd -DREQUANT_RELAXED=1)
    list(APPEND variant_features --enable-relaxed-simd)
  endif()
  set(objects)
  set(low_bits_objects)
  set(late_objects)
  foreach(source IN LISTS kernel_sources late_kernel_sources)
    file(RELATIVE_PATH relative ${PROJECT_SOURCE_DIR}/src ${source})
    string(REGEX REPLACE "^kernels/" "" relative ${relative})
    string(REPLACE "/" "_" object ${relative})
    # Unrolling by the compiler beyond RQ_UNROLL adds a fifth to all kernels and makes only few
    # faster, as measured.
    set(optimize -O2 -fno-unroll-loops)
    if(relative MATCHES "^requantize/|_dot8|_gather")
      set(optimize -O3)
    endif()
    set(object ${PROJECT_BINARY_DIR}/kernels-${variant}/${object}.o)
    set(list objects)
    foreach(prefix IN LISTS low_bits_sources)
      string(FIND ${source} "${PROJECT_SOURCE_DIR}/${prefix}" position)
      if(position EQUAL 0)
        set(list low_bits_objects)
      endif()
    endforeach()
    if(source IN_LIST late_kernel_sources)
      set(list late_objects)
    endif()
    list(APPEND ${list} ${object})
    add_custom_command(
      OUTPUT ${object}
      COMMAND ${kernel_launcher} ${REQUANT_CLANGXX} --target=wasm32 -std=c++20 ${optimize} -Wall -Wextra ${werror}
              -ffreestanding -fvisibility=default -nostdlib -nostdinc++ -fno-exceptions -fno-rtti -ffp-contract=off
              -mbulk-memory -mnontrapping-fptoint -msign-ext ${isa}
              -DREQUANT_KERNEL_MODULE=1 -I${PROJECT_SOURCE_DIR}/src
              -MD -MF ${object}.d -c ${source} -o ${object}
      DEPENDS ${source}
      DEPFILE ${object}.d
      JOB_POOL kernels
      COMMENT "Kernel ${relative} (${variant})"
      VERBATIM)
  endforeach()

  # Functions stay as the sources define them. An engine compiles and replaces whole functions, and
  # never one that is running, so that the first run of a kernel in one function would stay in
  # unoptimized code.
  # Three modules are made of the same objects: the kernels that are merged into the core, those
  # that are loaded on demand (with the functions they call in the others), and all kernels, for
  # threads.
  set(kernels ${PROJECT_BINARY_DIR}/kernels-${variant}.wasm)
  set(low_bits ${dist}/requant-lowbits-${variant}.wasm)
  set(all_kernels ${PROJECT_BINARY_DIR}/all-kernels-${variant}.wasm)
  set(${kernels}_objects ${objects})
  set(${low_bits}_objects ${low_bits_objects} --start-lib ${objects} --end-lib)
  set(${all_kernels}_objects ${objects} ${low_bits_objects} ${late_objects})
  set(result ${dist}/requant-${variant}.wasm)
  if(objects)
    foreach(module ${kernels} ${low_bits} ${all_kernels})
      get_filename_component(name ${module} NAME_WE)
      set(linked ${PROJECT_BINARY_DIR}/${name})
      # At -O3, wasm-opt moves vector constants such as masks to their uses, and engines build them
      # again at every use: products with 4-bit blocks took 1.3 times as long. Other kernels gain a
      # percent.
      set(level -O3)
      if(NOT module STREQUAL ${kernels})
        set(level -O2)
      endif()
      add_custom_command(
        OUTPUT ${module}
        COMMAND ${REQUANT_WASM_LD} --no-entry --import-memory=core,memory --export-dynamic
                --gc-sections --strip-debug ${${module}_objects} -o ${linked}.linked
        COMMAND ${wasm_opt} ${variant_features} ${level} --one-caller-inline-max-function-size 30
                --remove-unused-module-elements ${linked}.linked -o ${linked}.slim
        COMMAND ${REQUANT_NODE} ${module_scripts}/check_kernels.mjs --nm ${REQUANT_NM}
                ${linked}.slim ${module} ${objects} ${low_bits_objects} ${late_objects}
        DEPENDS ${objects} ${low_bits_objects} ${late_objects} ${module_scripts}/check_kernels.mjs
                ${module_scripts}/binaryen.mjs
        COMMENT "Kernel module ${name}"
        VERBATIM)
    endforeach()
    list(APPEND kernel_modules ${kernels} ${low_bits})
    set(merge COMMAND ${wasm_merge} ${variant_features} --enable-multimemory
              ${main} core ${kernels} kernels
              --skip-export-conflicts -o ${result}.merged)
  else()
    set(kernels)
    set(merge COMMAND ${CMAKE_COMMAND} -E copy ${main} ${result}.merged)
  endif()
  # Temporary files of the merge stay out of dist, which the package ships.
  string(REPLACE "${dist}/" "${PROJECT_BINARY_DIR}/" merge "${merge}")
  set(merged ${PROJECT_BINARY_DIR}/requant-${variant}.wasm.merged)
  set(optimized ${PROJECT_BINARY_DIR}/requant-${variant}.wasm)
  add_custom_command(
    OUTPUT ${optimized}
    ${merge}
    COMMAND ${REQUANT_NODE} ${module_scripts}/close.mjs ${merged}
    COMMAND ${wasm_opt} ${variant_features} ${module_options} ${merged} -o ${optimized}
    DEPENDS ${main} ${kernels} ${module_scripts}/close.mjs ${module_scripts}/binaryen.mjs
    COMMENT "Core and kernels in one module (${variant})"
    VERBATIM)
  # The core can be optimized together with the operators and the tools; it names the results.
  add_custom_command(
    OUTPUT ${result}
    COMMAND ${CMAKE_COMMAND} -E copy ${optimized} ${result}
    COMMAND ${REQUANT_NODE} ${module_scripts}/stamp.mjs ${result} ${operators} ${tools} ${low_bits}
    DEPENDS ${optimized} ${operators} ${tools} ${low_bits} ${module_scripts}/stamp.mjs
    COMMENT "requant-${variant}.wasm"
    VERBATIM)
  set(threads ${dist}/requant-${variant}-threads.wasm)
  set(thread_kernels ${dist}/kernels-${variant}-threads.wasm)
  set(thread_low_bits ${dist}/requant-lowbits-${variant}-threads.wasm)
  add_custom_command(
    OUTPUT ${threads} ${thread_kernels} ${thread_low_bits}
    COMMAND ${REQUANT_NODE} ${module_scripts}/share_memory.mjs ${result} ${threads}
    COMMAND ${REQUANT_NODE} ${module_scripts}/share_memory.mjs ${all_kernels} ${thread_kernels}
    COMMAND ${REQUANT_NODE} ${module_scripts}/share_memory.mjs ${low_bits} ${thread_low_bits}
    DEPENDS ${result} ${all_kernels} ${low_bits} ${module_scripts}/share_memory.mjs ${module_scripts}/sections.mjs
    COMMENT "requant-${variant}-threads.wasm"
    VERBATIM)
  list(APPEND outputs ${result} ${low_bits} ${threads} ${thread_kernels} ${thread_low_bits})
endforeach()

# A target of its own, so that `cmake --build --preset wasm --target kernels` checks the kernels
# alone.
add_custom_target(kernels DEPENDS ${kernel_modules})
add_custom_target(modules ALL DEPENDS ${outputs})
add_dependencies(modules kernels)
# What one Node without threads loads: `--target demo-simd128`, `--target demo-relaxed`.
foreach(variant simd128 relaxed)
  add_custom_target(demo-${variant} DEPENDS ${dist}/core.js ${dist}/requant-${variant}.wasm)
endforeach()
