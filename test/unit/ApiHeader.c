/*===- ApiHeader.c - octet.h is C ---------------------------------*- C -*-===*\
|*                                                                            *|
|* Part of the Octet project, under the Apache License v2.0 with LLVM         *|
|* Exceptions. See LICENSE for license information.                           *|
|* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception                    *|
|*                                                                            *|
|*===----------------------------------------------------------------------===*|
|*                                                                            *|
|* Compiled as strict C99 with every warning an error, the header first.      *|
|*                                                                            *|
\*===----------------------------------------------------------------------===*/

#include "octet/octet.h"

int apiHeaderVersion(void);
size_t apiHeaderSizes(int which);

int apiHeaderVersion(void) { return OCTET_API_VERSION; }

size_t apiHeaderSizes(int which) {
  const size_t sizes[] = {sizeof(octet_limits), sizeof(octet_model_options),
                          sizeof(octet_sampler_options), sizeof(octet_entry),
                          sizeof(octet_trace)};
  return sizes[which];
}
