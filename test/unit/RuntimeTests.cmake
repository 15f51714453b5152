# The runtime's tests, and a program written by hand for them.
# octet_add_fake_object(NAME FILE DEFINITIONS…): a program as a shared object
# without imports, as the compiler makes them.
function(octet_add_fake_object name file)
  add_library(${name} MODULE ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/${file})
  target_compile_definitions(${name} PRIVATE
    FAKE_HASH="5a6de253db0095498f1691baba8fd74e" ${ARGN})
  # No standard library: its functions would be imports.
  target_compile_options(${name} PRIVATE -ffreestanding -fno-builtin -fno-stack-protector -fno-sanitize=all -O2)
  target_link_options(${name} PRIVATE -fno-sanitize=all -nostdlib -Wl,-z,defs)
  set_target_properties(${name} PROPERTIES PREFIX "" C_VISIBILITY_PRESET hidden
    LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/unit)
endfunction()
function(octet_add_fake_program name)
  octet_add_fake_object(${name} fake_program.c ${ARGN})
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

# The same program on CUDA, and a libcuda without a device.
function(octet_add_fake_cuda_program name)
  octet_add_fake_object(${name} fake_cuda_program.c ${ARGN})
endfunction()
octet_add_fake_cuda_program(fake-cuda-program FAKE_NO_PTX)
octet_add_fake_cuda_program(fake-cuda-sm89 FAKE_TARGET="sm_89")
octet_add_fake_cuda_program(fake-cuda-no-ptx FAKE_TARGET="sm_89" FAKE_NO_PTX)
octet_add_fake_cuda_program(fake-cuda-entry FAKE_ENTRY="fake_gone")
octet_add_fake_cuda_program(fake-cuda-size FAKE_SIZE)
octet_add_fake_cuda_program(fake-cuda-count FAKE_COUNT)
add_library(fake-cuda MODULE ${CMAKE_CURRENT_LIST_DIR}/fake_cuda.cpp
  ${PROJECT_SOURCE_DIR}/runtime/core/Sampler.cpp)
set_target_properties(fake-cuda PROPERTIES PREFIX "" CXX_VISIBILITY_PRESET hidden
  LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/unit)
# The command line finds it where LD_LIBRARY_PATH points.
add_custom_command(TARGET fake-cuda POST_BUILD
  COMMAND ${CMAKE_COMMAND} -E make_directory ${PROJECT_BINARY_DIR}/unit/fake-driver
  COMMAND ${CMAKE_COMMAND} -E create_symlink ../fake-cuda.so
          ${PROJECT_BINARY_DIR}/unit/fake-driver/libcuda.so.1)
# An NVRTC for its programs.
add_library(fake-nvrtc MODULE ${CMAKE_CURRENT_LIST_DIR}/fake_nvrtc.c)
set_target_properties(fake-nvrtc PROPERTIES PREFIX "" C_VISIBILITY_PRESET hidden
  LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/unit)
add_custom_command(TARGET fake-nvrtc POST_BUILD
  COMMAND ${CMAKE_COMMAND} -E make_directory ${PROJECT_BINARY_DIR}/unit/fake-compiler
  COMMAND ${CMAKE_COMMAND} -E create_symlink ../fake-nvrtc.so
          ${PROJECT_BINARY_DIR}/unit/fake-compiler/libnvrtc.so.13)
set(fake_cuda fake-cuda fake-nvrtc fake-cuda-program fake-cuda-sm89 fake-cuda-no-ptx fake-cuda-entry
  fake-cuda-size fake-cuda-count)

octet_add_library(OctetFakeModel ${CMAKE_CURRENT_LIST_DIR}/FakeModel.cpp
  LINK OctetCheckpoint OctetPayload OctetSupport)
add_executable(fake-model ${CMAKE_CURRENT_LIST_DIR}/fake-model.cpp)
target_link_libraries(fake-model PRIVATE OctetFakeModel)
set_target_properties(fake-model PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/unit)
add_dependencies(fake-model ${fake_programs} ${fake_cuda})

# octet_add_runtime_test(SUBJECT LIBS…): RuntimeSUBJECTTest.cpp.
function(octet_add_runtime_test subject)
  octet_add_unittest(Runtime${subject}Test
    ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/Runtime${subject}Test.cpp
    LINK OctetFakeModel ${ARGN})
  target_compile_definitions(Runtime${subject}Test PRIVATE
    OCTET_FAKE_DIR="${PROJECT_BINARY_DIR}/unit")
  add_dependencies(Runtime${subject}Test ${fake_programs})
endfunction()

foreach(subject Payload Sampler KvCache WeightArena Services Engine RandomWeights Profile)
  octet_add_runtime_test(${subject} OctetRuntime)
endforeach()
octet_add_runtime_test(Generate OctetRuntimeCli)
foreach(subject Cuda CudaParts)
  octet_add_runtime_test(${subject} OctetRuntime)
  add_dependencies(Runtime${subject}Test ${fake_cuda})
endforeach()
# Kernels for a real device, where there is a compiler for them.
if(CUDAToolkit_NVCC_EXECUTABLE)
  set(cubin ${PROJECT_BINARY_DIR}/unit/fake_kernels.cubin)
  add_custom_command(OUTPUT ${cubin}
    COMMAND ${CUDAToolkit_NVCC_EXECUTABLE} -O3 -std=c++20 -arch=sm_90a -cubin
            -o ${cubin} ${CMAKE_CURRENT_LIST_DIR}/fake_kernels.cu
    DEPENDS ${CMAKE_CURRENT_LIST_DIR}/fake_kernels.cu)
  add_custom_target(fake-kernels DEPENDS ${cubin})
  octet_add_fake_cuda_program(fake-cuda-device FAKE_CUBIN="${cubin}" FAKE_NO_PTX)
  octet_add_fake_cuda_program(fake-cuda-device-entry FAKE_CUBIN="${cubin}" FAKE_NO_PTX
    FAKE_ENTRY="fake_gone")
  add_dependencies(fake-cuda-device fake-kernels)
  add_dependencies(fake-cuda-device-entry fake-kernels)
  octet_add_runtime_test(CudaDevice OctetRuntime)
  add_dependencies(RuntimeCudaDeviceTest fake-cuda-device fake-cuda-device-entry ${fake_cuda})
  set(rewrites ${PROJECT_BINARY_DIR}/unit/rewrite_kernels.cubin)
  add_custom_command(OUTPUT ${rewrites}
    COMMAND ${CUDAToolkit_NVCC_EXECUTABLE} -O3 -std=c++20 -arch=sm_90a -cubin
            -I ${PROJECT_SOURCE_DIR}/runtime/kernels/cuda
            -o ${rewrites} ${CMAKE_CURRENT_LIST_DIR}/rewrite_kernels.cu
    DEPENDS ${CMAKE_CURRENT_LIST_DIR}/rewrite_kernels.cu
            ${PROJECT_SOURCE_DIR}/runtime/kernels/cuda/load/rewrite.cuh
            ${PROJECT_SOURCE_DIR}/runtime/kernels/cuda/ptx/base.cuh)
  add_custom_target(rewrite-kernels DEPENDS ${rewrites})
  octet_add_runtime_test(CudaRewrite OctetRuntime)
  add_dependencies(RuntimeCudaRewriteTest rewrite-kernels)
  # They are carried to machines with devices.
  foreach(test RuntimeCudaDeviceTest RuntimeCudaRewriteTest)
    target_link_options(${test} PRIVATE -static-libstdc++ -static-libgcc)
  endforeach()
endif()
# Our declarations of the driver against a toolkit's, where there is one.
find_path(OCTET_CUDA_INCLUDE cuda.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
if(OCTET_CUDA_INCLUDE)
  octet_add_unittest(RuntimeCudaTypesTest ${CMAKE_CURRENT_LIST_DIR}/RuntimeCudaTypesTest.cpp)
  target_include_directories(RuntimeCudaTypesTest SYSTEM PRIVATE ${OCTET_CUDA_INCLUDE})
endif()

# octet.h as its users have it: a C file, and liboctet.so.
octet_add_unittest(ApiTest
  ${CMAKE_CURRENT_LIST_DIR}/ApiTest.cpp
  ${CMAKE_CURRENT_LIST_DIR}/ApiStepTest.cpp
  ${CMAKE_CURRENT_LIST_DIR}/ApiHeader.c
  LINK OctetFakeModel OctetShared Threads::Threads)
octet_add_unittest(CudaTargetsTest CudaTargetsTest.cpp LINK OctetRuntimeCuda)
target_compile_definitions(CudaTargetsTest PRIVATE OCTET_FAKE_DIR="${PROJECT_BINARY_DIR}/unit")
add_dependencies(CudaTargetsTest fake-cuda)
set_source_files_properties(${CMAKE_CURRENT_LIST_DIR}/ApiHeader.c PROPERTIES
  COMPILE_OPTIONS "-std=c99;-Wall;-Wextra;-pedantic;-Werror")
target_compile_definitions(ApiTest PRIVATE OCTET_FAKE_DIR="${PROJECT_BINARY_DIR}/unit")
add_dependencies(ApiTest ${fake_programs})
