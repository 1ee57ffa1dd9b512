"""The types of functions as IREE's code declares them, compared with those of a manifest.

>>> from plica.runtime.manifest import ArrayType
>>> declared = "sync func @f(%input0: tensor<?x4xf32>) -> (%output0: tensor<?xi1>)"
>>> misfit_of_types(declared, [ArrayType("x", "float32", ("n", 4))], [ArrayType("y", "bool", ("n",))])
''
>>> misfit_of_types(declared, [ArrayType("x", "float32", ("n", 5))], [ArrayType("y", "bool", ("n",))])
'takes tensor<?x4xf32> for x: float32[n, 5]'
"""

import re
from collections.abc import Sequence

from plica.runtime.manifest import ArrayType

_TYPE = re.compile(r"%\w+: (tensor<(?:[^<>]|<[^<>]*>)*>|\w+)")
_ARRAY = "tensor<"
_SPELT = {"bool": "i1", "bfloat16": "bf16", "complex64": "complex<f32>", "complex128": "complex<f64>"}


def misfit_of_types(declared: str, given: Sequence[ArrayType], results: Sequence[ArrayType]) -> str:
    """What of a function's declaration is not as a manifest has it; empty if all is.

    Args:
        declared: As the code says it of itself.
        given: What the function is called with.
        results: What it is to give.
    """
    inward, arrow, outward = declared.partition(") -> ")
    if not arrow:
        inward, outward = declared, ""
    for verb, texts, types in (("takes", _TYPE.findall(inward), given), ("gives", _TYPE.findall(outward), results)):
        if len(texts) != len(types):
            return f"{verb} {len(texts)} arrays, expected {len(types)}"
        for text, one in zip(texts, types, strict=True):
            if not _fits(text, one) or (verb == "takes" and not text.startswith(_ARRAY)):
                return f"{verb} {text} for {one}"
    return ""


def _fits(text: str, one: ArrayType) -> bool:
    """Whether an array of a type may stand for one of the code's; code that takes any size takes a known one too."""
    element = _SPELT.get(one.dtype) or one.dtype.replace("uint", "i").replace("int", "i").replace("float", "f")
    if not text.startswith(_ARRAY):  # a number
        return text == element and not one.shape
    *sizes, found = text.removeprefix(_ARRAY).removesuffix(">").replace("complex", "comple*").split("x")
    if found.replace("*", "x") != element or len(sizes) != len(one.shape):
        return False
    return all(size in ("?", str(expected)) for size, expected in zip(sizes, one.shape, strict=True))
