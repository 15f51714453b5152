# The runtime's tests, and a program written by hand for them.
# octet_add_fake_program(NAME DEFINITIONS…): fake_program.c as a shared object
# without imports, as the compiler makes them.
function(octet_add_fake_program name)
  add_library(${name} MODULE ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/fake_program.c)
  target_compile_definitions(${name} PRIVATE
    FAKE_HASH="5a6de253db0095498f1691baba8fd74e" ${ARGN})
  # No standard library: its functions would be imports.
  target_compile_options(${name} PRIVATE -ffreestanding -fno-builtin -fno-stack-protector -fno-sanitize=all -O2)
  target_link_options(${name} PRIVATE -fno-sanitize=all -nostdlib -Wl,-z,defs)
  set_target_properties(${name} PROPERTIES PREFIX "" C_VISIBILITY_PRESET hidden
    LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/unit)
endfunction()

octet_add_fake_program(fake-program)
octet_add_fake_program(fake-module FAKE_MODULE)
octet_add_fake_program(fake-unfilled FAKE_UNFILLED)
octet_add_fake_program(fake-abi FAKE_ABI)
octet_add_fake_program(fake-arena FAKE_ARENA)
octet_add_fake_program(fake-step FAKE_STEP)
octet_add_fake_program(fake-default FAKE_CHECKPOINT="gone/checkpoint")
set(fake_programs fake-program fake-module fake-unfilled fake-abi fake-arena fake-step
  fake-default)

octet_add_library(OctetFakeModel ${CMAKE_CURRENT_LIST_DIR}/FakeModel.cpp
  LINK OctetCheckpoint OctetPayload OctetSupport)
add_executable(fake-model ${CMAKE_CURRENT_LIST_DIR}/fake-model.cpp)
target_link_libraries(fake-model PRIVATE OctetFakeModel)
set_target_properties(fake-model PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/unit)
add_dependencies(fake-model ${fake_programs})

# octet_add_runtime_test(SUBJECT LIBS…): RuntimeSUBJECTTest.cpp.
function(octet_add_runtime_test subject)
  octet_add_unittest(Runtime${subject}Test
    ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/Runtime${subject}Test.cpp
    LINK OctetFakeModel ${ARGN})
  target_compile_definitions(Runtime${subject}Test PRIVATE
    OCTET_FAKE_DIR="${PROJECT_BINARY_DIR}/unit")
  add_dependencies(Runtime${subject}Test ${fake_programs})
endfunction()

foreach(subject Payload Sampler KvCache Services Engine RandomWeights Profile)
  octet_add_runtime_test(${subject} OctetRuntime)
endforeach()
octet_add_runtime_test(Generate OctetRuntimeCli)

# octet.h as its users have it: a C file, and liboctet.so.
octet_add_unittest(ApiTest
  ${CMAKE_CURRENT_LIST_DIR}/ApiTest.cpp
  ${CMAKE_CURRENT_LIST_DIR}/ApiStepTest.cpp
  ${CMAKE_CURRENT_LIST_DIR}/ApiHeader.c
  LINK OctetFakeModel OctetShared Threads::Threads)
set_source_files_properties(${CMAKE_CURRENT_LIST_DIR}/ApiHeader.c PROPERTIES
  COMPILE_OPTIONS "-std=c99;-Wall;-Wextra;-pedantic;-Werror")
target_compile_definitions(ApiTest PRIVATE OCTET_FAKE_DIR="${PROJECT_BINARY_DIR}/unit")
add_dependencies(ApiTest ${fake_programs})
