"""Calls of objects that Programs know by name alone: passes know nothing of what they compute.

    z = opaque[name='module_0' method='forward' shape=(b,4) dtype=f32] x

A backend finds the object where it finds leaves. Nothing is known of it but the type of the result: calls are never
folded, shared or left out. Backends that cannot run such an object (the interpreter, native code) refuse the call.

>>> str(_opaque_type(name="module_0", method="forward", shape=(2, 4), dtype=DType.FLOAT32))
'f32[2,4]'
"""

from plica.ir.dtypes import DType
from plica.ir.op import Derivative, Op, unsupported
from plica.ir.sizes import Dim
from plica.ir.types import ArrayType, array_type

_NO_REFERENCE = unsupported(
    "an opaque call runs an object of a backend, such as a torch module, which only that backend can: run the circuit "
    "there, or put a layer in its place that is described in operations."
)


def _opaque_type(
    *arrays: ArrayType,  # noqa: ARG001
    name: str,  # noqa: ARG001
    method: str,  # noqa: ARG001
    shape: tuple[Dim, ...],
    dtype: DType,
) -> ArrayType:
    return array_type(shape, dtype)


OPAQUE = (
    Op(
        "opaque",
        _opaque_type,
        _NO_REFERENCE,
        samples=lambda: (),  # nothing but the object itself says what the result is
        decompose=unsupported("opaque: only a backend knows the object"),
        pure=False,
        derivative=Derivative.ITS_OWN,
    ),
)
