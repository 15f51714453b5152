/*===- Runner.S - The runner inside the compiler ----------------------------===*\
|*                                                                            *|
|* Part of the Octet project, under the Apache License v2.0 with LLVM         *|
|* Exceptions. See LICENSE for license information.                           *|
|* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception                    *|
|*                                                                            *|
|*===----------------------------------------------------------------------===*|
|*                                                                            *|
|* The bytes of octet-run, which Write.cpp puts before a payload.             *|
|*                                                                            *|
\*===----------------------------------------------------------------------===*/

        .section .rodata
        .globl  octet_runner_begin
        .globl  octet_runner_end
        .balign 64
octet_runner_begin:
        .incbin OCTET_RUNNER
octet_runner_end:
        .byte   0

        .section .note.GNU-stack,"",@progbits
