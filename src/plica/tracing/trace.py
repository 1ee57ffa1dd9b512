"""`trace`: a Python function of arrays becomes a Program.

>>> import plica.tracing.namespace as pnp
>>> from plica.ir.types import spec
>>> print(trace(lambda x: pnp.sum(pnp.exp(x) * 2, axis=1), spec(("n", 3), "float32")))
{ lambda ; {n:i64[]} x:f32[n,3] . let
    a:f32[n,3] = exp x
    b:f32[n,3] = multiply a 2.0:f32[]
    c:f32[n] = sum[axis=(1,) keepdims=False] b
  in (c,) }
"""

import inspect
from collections.abc import Callable
from typing import Any

from plica.errors import TraceError
from plica.ir.builder import Builder
from plica.ir.program import Operand, Program
from plica.ir.types import Spec
from plica.ops import OPS
from plica.tracing.tracer import Trace, Tracer, default_dtype, literal


def trace(fn: Callable[..., Any], *specs: Spec) -> Program:
    """Record what `fn` does to arguments of these shapes and dtypes.

    Args:
        fn: A function of as many arrays as there are `specs`; it returns an array or a tuple or list of arrays.
        specs: Made by `plica.spec`.

    Raises:
        TraceError: `fn` needs a value that is known only when the program runs, or returns something else than arrays.
        ShapeError: Sizes do not fit.
        DTypeError: Dtypes do not fit.
    """
    builder = Builder(OPS)
    scope = Trace(builder, locate=True)
    names = _argument_names(fn, len(specs))
    arguments = [
        Tracer(builder.argument(name, one.shape, one.dtype), scope) for name, one in zip(names, specs, strict=True)
    ]
    with scope.active():
        results = fn(*arguments)
    listed = results if isinstance(results, tuple | list) else (results,)
    return builder.build([_operand(result, scope) for result in listed])


def _argument_names(fn: Callable[..., Any], count: int) -> list[str | None]:
    try:
        parameters = list(inspect.signature(fn).parameters.values())
    except (TypeError, ValueError):
        return [None] * count
    positional = [one for one in parameters if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
    names: list[str | None] = [one.name for one in positional]
    if any(one.kind == one.VAR_POSITIONAL for one in parameters):
        names += [None] * (count - len(names))
    required = len([one for one in positional if one.default is one.empty])
    if not required <= count <= len(names):
        raise TraceError(
            f"{getattr(fn, '__name__', fn)} takes {len(names)} argument(s), but {count} spec(s) were given."
        )
    return names[:count]


def _operand(result: object, scope: Trace) -> Operand:
    if isinstance(result, Tracer):
        if result.trace is not scope:
            raise TraceError(f"{result!r} belongs to another traced function and cannot be returned from this one.")
        return result.operand
    if isinstance(result, bool | int | float | complex):
        return literal(result, default_dtype(result))
    raise TraceError(f"a traced function returns arrays or a tuple of them, found {type(result).__name__}.")
