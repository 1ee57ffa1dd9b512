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


def misfit_of_types(declared: str, arguments: Sequence[ArrayType], results: Sequence[ArrayType]) -> str:
    """The first difference between a function's declaration and the types of a manifest; empty if there is none.

    Args:
        declared: The declaration in the code.
        arguments: The types of the arguments that the function is called with.
        results: The types that it must return.
    """
    inward, arrow, outward = declared.partition(") -> ")
    if not arrow:
        inward, outward = declared, ""
    for verb, texts, types in (("takes", _TYPE.findall(inward), arguments), ("gives", _TYPE.findall(outward), results)):
        if len(texts) != len(types):
            return f"{verb} {len(texts)} arrays, expected {len(types)}"
        for text, array in zip(texts, types, strict=True):
            if not _fits(text, array) or (verb == "takes" and not text.startswith(_ARRAY)):
                return f"{verb} {text} for {array}"
    return ""


def _fits(text: str, array: ArrayType) -> bool:
    """Whether an array may be passed for a declared type; a `?` in the declaration takes any size."""
    element = _SPELT.get(array.dtype) or array.dtype.replace("uint", "i").replace("int", "i").replace("float", "f")
    if not text.startswith(_ARRAY):  # a number
        return text == element and not array.shape
    *sizes, suffix = text.removeprefix(_ARRAY).removesuffix(">").replace("complex", "comple*").split("x")
    if suffix.replace("*", "x") != element or len(sizes) != len(array.shape):
        return False
    return all(size in ("?", str(expected)) for size, expected in zip(sizes, array.shape, strict=True))
