# Part of the Octet project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Configuration of the lit suites: tools, substitutions, features.

Substitutions   %python, %shared (OCTET_SHARED_DIR), %fake (folder of the program
                written by hand and of fake-model), and lit's own %s, %S, %t
Features        shared      OCTET_SHARED_DIR is there
                octet, octet-opt, octet-run, octet-reduce, octet-lsp-server
                            that tool is built
                fake-model  and octet-run are built
                nvrtc       CUDA kernels can be compiled here
                no-driver   there is no driver of NVIDIA's, so no GPU
                avx2, avx512, avx512bf16, amx      of this machine
OCTET_CHECK_ROUNDTRIP=1 in the environment makes each octet-opt verify that what
it reads survives printing and parsing.
"""

import ctypes
import os
from pathlib import Path

import lit.formats

config.name = "octet"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir", ".test"]
config.excludes = ["Inputs"]
config.test_source_root = config.octet_test_source
config.test_exec_root = config.octet_test_build

# Tools are found on PATH, ours first: FileCheck, not, count are LLVM's.
config.environment["PATH"] = os.pathsep.join(
    [config.octet_tools, config.llvm_tools, os.environ.get("PATH", "")])
for name in ("HOME", "TMPDIR", "XDG_CACHE_HOME", "ASAN_OPTIONS",
             "UBSAN_OPTIONS", "LSAN_OPTIONS"):
    if name in os.environ:
        config.environment[name] = os.environ[name]
# `--target native` is the processor, whatever the machine has.
config.environment["CUDA_VISIBLE_DEVICES"] = ""
config.environment["FILECHECK_OPTS"] = "--dump-input=fail"

config.substitutions.append(("%python", f'"{config.python}"'))
config.substitutions.append(("%cxx", f'"{config.octet_cxx}"'))
config.substitutions.append(("%shared", config.octet_shared))
if os.environ.get("OCTET_CHECK_ROUNDTRIP"):
    config.substitutions.append(
        (r"(?<![\w/.%-])octet-opt(?![\w-])", "octet-opt --verify-roundtrip"))

if config.octet_shared and Path(config.octet_shared).is_dir():
    config.available_features.add("shared")
else:
    lit_config.note("OCTET_SHARED_DIR is not set or not there: tests that "
                    "REQUIRE shared are skipped")
for tool in ("octet", "octet-opt", "octet-run", "octet-reduce",
             "octet-lsp-server"):
    if Path(config.octet_tools, tool).exists():
        config.available_features.add(tool)

# A program written by hand (test/unit/RuntimeTests.cmake).
fake = Path(config.octet_tools).parent / "unit"
config.substitutions.append(("%fake", str(fake)))
if (fake / "fake-model").exists() and "octet-run" in config.available_features:
    config.available_features.add("fake-model")


def has_nvrtc():
    """Where lib/CudaSource/Nvrtc.cpp looks."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    toolkits = [os.environ[name] + "/lib64/libnvrtc.so.13"
                for name in ("CUDA_HOME", "CUDA_PATH") if os.environ.get(name)]
    for path in ("libnvrtc.so.13", config.octet_nvrtc, *toolkits,
                 cache + "/octet/cuda-13.0/nvidia/cu13/lib/libnvrtc.so.13"):
        try:
            ctypes.CDLL(path)
            return True
        except OSError:
            pass
    return False


if has_nvrtc():
    config.available_features.add("nvrtc")
try:
    ctypes.CDLL("libcuda.so.1")
except OSError:
    config.available_features.add("no-driver")


def cpu_flags():
    """The processor's features as Linux names them."""
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return set()
    return {flag for line in text.splitlines() if line.startswith("flags")
            for flag in line.split(":", 1)[1].split()}


for feature, flag in (("avx2", "avx2"), ("avx512", "avx512f"),
                      ("avx512bf16", "avx512_bf16"), ("amx", "amx_tile")):
    if flag in cpu_flags():
        config.available_features.add(feature)
