# MLIR and LLVM as shared libraries, and the precompiled header of everything
# that includes them.
find_package(MLIR REQUIRED CONFIG HINTS /usr/lib/llvm-22/lib/cmake/mlir)
list(APPEND CMAKE_MODULE_PATH "${MLIR_CMAKE_DIR}" "${LLVM_CMAKE_DIR}")
include(TableGen)
include(AddLLVM)
include(AddMLIR)
include_directories(SYSTEM ${LLVM_INCLUDE_DIRS} ${MLIR_INCLUDE_DIRS})
add_definitions(${LLVM_DEFINITIONS})

add_library(OctetMLIRPch OBJECT ${PROJECT_SOURCE_DIR}/tools/cmake/pch.cpp)
target_precompile_headers(OctetMLIRPch PRIVATE ${PROJECT_SOURCE_DIR}/tools/cmake/pch.h)
target_compile_options(OctetMLIRPch PRIVATE -fno-exceptions)

# octet_add_mlir_library(NAME SOURCES… [LINK LIBS…] [DEPENDS TARGETS…])
function(octet_add_mlir_library name)
  cmake_parse_arguments(ARG "" "" "LINK;DEPENDS" ${ARGN})
  octet_add_library(${name} ${ARG_UNPARSED_ARGUMENTS} LINK ${ARG_LINK} MLIR LLVM DEPENDS ${ARG_DEPENDS})
  target_precompile_headers(${name} REUSE_FROM OctetMLIRPch)
endfunction()

# octet_tablegen(TARGET FILE.td OUT… with one `-gen-x` list each)
#   octet_tablegen(QuantIncGen QuantOps.td
#     "QuantOps.h.inc|-gen-op-decls" "QuantOps.cpp.inc|-gen-op-defs|-dialect=q")
function(octet_tablegen target td)
  set(LLVM_TARGET_DEFINITIONS ${td})
  foreach(item ${ARGN})
    string(REPLACE "|" ";" parts "${item}")
    list(POP_FRONT parts out)
    mlir_tablegen(${out} ${parts})
  endforeach()
  add_public_tablegen_target(${target})
endfunction()

# octet_add_mlir_tool(NAME SOURCES…)
# A tool over all dialects, and over the passes and pipelines that this build
# has: main() asks OCTET_HAVE_PASSES and OCTET_HAVE_PIPELINES.
function(octet_add_mlir_tool name)
  add_executable(${name} ${ARGN})
  # -fPIC as the precompiled header has it, which CMake's -fPIE would not match.
  target_compile_options(${name} PRIVATE -fno-exceptions -fPIC)
  target_link_libraries(${name} PRIVATE OctetDialects MLIR LLVM)
  if(TARGET OctetPasses)
    target_link_libraries(${name} PRIVATE OctetPasses)
    target_compile_definitions(${name} PRIVATE OCTET_HAVE_PASSES)
  endif()
  if(TARGET OctetPipeline)
    target_link_libraries(${name} PRIVATE OctetPipeline)
    target_compile_definitions(${name} PRIVATE OCTET_HAVE_PIPELINES)
  endif()
  target_precompile_headers(${name} REUSE_FROM OctetMLIRPch)
endfunction()
