"""Describes this machine as targets do: its architecture, and the features of its processor by Linux's names.

>>> "avx2" in LEVELS["x86-64-v3"], "avx512f" in LEVELS["x86-64-v3"]
(True, False)
"""

import functools
import os
import platform
from collections.abc import Mapping

from plica.runtime.manifest import Target

_V2 = ("cx16", "lahf_lm", "popcnt", "sse4_1", "sse4_2", "ssse3")
_V3 = (*_V2, "abm", "avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "movbe")
LEVELS: Mapping[str, tuple[str, ...]] = {
    "x86-64": (),
    "x86-64-v2": _V2,
    "x86-64-v3": _V3,
    "x86-64-v4": (*_V3, "avx512bw", "avx512cd", "avx512dq", "avx512f", "avx512vl"),
}
"""The features that code for a level of x86-64 may use."""

_ARCHITECTURES = {"amd64": "x86_64", "x64": "x86_64", "arm64": "aarch64"}  # other systems' words for the same
_CPUINFO = "/proc/cpuinfo"  # on Linux: a line of features for each processor, with equal contents
_LINES = ("flags", "Features")  # the beginning of that line on x86 and on ARM
# Without that file, numpy's detection answers; no processor with AVX2 lacks the other features of its level.
_OF_NUMPY = {"AVX2": _V3, "AVX512_SKX": LEVELS["x86-64-v4"], "ASIMD": ("asimd",), "ASIMDHP": ("asimdhp",)}


def architecture() -> str:
    """`x86_64`, `aarch64`, or the system's own name for another architecture."""
    name = platform.machine().lower()
    return _ARCHITECTURES.get(name, name)


@functools.cache
def features() -> frozenset[str]:
    """The features of the processor."""
    try:
        with open(_CPUINFO, encoding="ascii", errors="replace") as file:  # noqa: PTH123 - read at every start
            for line in file:
                if line.startswith(_LINES):
                    return frozenset(line.partition(":")[2].split())
    except OSError:
        pass
    return _features_of_numpy()


def _features_of_numpy() -> frozenset[str]:
    from numpy._core._multiarray_umath import __cpu_features__  # type: ignore[import-not-found]

    return frozenset(name for key, names in _OF_NUMPY.items() if __cpu_features__.get(key) for name in names)


def misfit(target: Target) -> str:
    """Why the code of a target cannot run here; empty if it can."""
    if target.architecture != architecture():
        return f"needs {target.architecture}, and this machine is {architecture()}"
    missing = sorted(set(target.features) - features()) if target.features else []
    if missing:
        return f"needs {', '.join(missing)}, which the processor of this machine does not have"
    return "" if hasattr(os, "memfd_create") else "needs Linux, which loads libraries from memory"
