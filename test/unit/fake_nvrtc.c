/*===- fake_nvrtc.c - An NVRTC that compiles one source
--------------------===*\
|*
|* Part of the Octet project, under the Apache License v2.0 with LLVM
|* Exceptions. See LICENSE for license information.
|* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
|*
|*===----------------------------------------------------------------------===*|
|*
|* The source of fake_cuda_program.c becomes the machine code that fake_cuda.cpp
|* takes. It knows no target above sm_93.
|*
\*===----------------------------------------------------------------------===*/

#include <stdlib.h>
#include <string.h>

#define FAKE __attribute__((visibility("default")))

struct program {
  int isOurs;
};

/* Of this process, for tests. */
FAKE int fakeNvrtcCompiled = 0;
FAKE char fakeNvrtcTarget[32] = "";

static const char code[] = "fake cubin";
static const char text[] = "fake ptx";
static const char message[] = "nvrtc: error: invalid --gpu-architecture\n";

FAKE int nvrtcVersion(int *major, int *minor) {
  *major = 13;
  *minor = 7;
  return 0;
}
FAKE const char *nvrtcGetErrorString(int result) {
  return result == 5 ? "NVRTC_ERROR_INVALID_OPTION" : "NVRTC_ERROR_COMPILATION";
}
FAKE int nvrtcCreateProgram(struct program **program, const char *source,
                            const char *name, int count,
                            const char *const *headers,
                            const char *const *names) {
  (void)name, (void)count, (void)headers, (void)names;
  *program = malloc(sizeof(**program));
  (*program)->isOurs = strcmp(source, "// fake source\n") == 0;
  return 0;
}
FAKE int nvrtcDestroyProgram(struct program **program) {
  free(*program);
  *program = NULL;
  return 0;
}
FAKE int nvrtcCompileProgram(struct program *program, int count,
                             const char *const *options) {
  static const char prefix[] = "--gpu-architecture=";
  const char *target = "";
  for (int i = 0; i < count; ++i)
    if (strncmp(options[i], prefix, sizeof(prefix) - 1) == 0)
      target = options[i] + sizeof(prefix) - 1;
  strncpy(fakeNvrtcTarget, target, sizeof(fakeNvrtcTarget) - 1);
  ++fakeNvrtcCompiled;
  if (strncmp(target, "sm_", 3) != 0 || atoi(target + 3) > 93)
    return 5;
  return program->isOurs ? 0 : 6;
}
FAKE int nvrtcGetProgramLogSize(struct program *program, size_t *size) {
  (void)program;
  *size = sizeof(message);
  return 0;
}
FAKE int nvrtcGetProgramLog(struct program *program, char *log) {
  (void)program;
  memcpy(log, message, sizeof(message));
  return 0;
}
FAKE int nvrtcGetCUBINSize(struct program *program, size_t *size) {
  (void)program;
  *size = sizeof(code);
  return 0;
}
FAKE int nvrtcGetCUBIN(struct program *program, char *out) {
  (void)program;
  memcpy(out, code, sizeof(code));
  return 0;
}
FAKE int nvrtcGetPTXSize(struct program *program, size_t *size) {
  (void)program;
  *size = sizeof(text);
  return 0;
}
FAKE int nvrtcGetPTX(struct program *program, char *out) {
  (void)program;
  memcpy(out, text, sizeof(text));
  return 0;
}
