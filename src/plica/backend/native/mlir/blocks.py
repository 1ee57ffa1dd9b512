"""Blocks with branches between them (`cf`), by which the host goes one of two ways.

Not `scf.if`: of one that hands on an array from outside IREE 3.13 makes code that several threads end with an error
(adr/0026).
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from plica.backend.native.mlir.emitter import Emitter
from plica.backend.native.mlir.types import Value


def either(
    emitter: Emitter,
    holds: Value,
    like: Sequence[Value],
    then: Callable[[], list[Value]],
    other: Callable[[], list[Value]],
) -> list[Value]:
    """The values of one of two regions, as values like `made`."""
    code = emitter.code
    labels, end = [code.label(), code.label()], code.label()
    code.put(f"cf.cond_br {holds.text}, {labels[0]}, {labels[1]}")
    for label, region in zip(labels, (then, other), strict=True):
        code.start(label)
        with emitter.region():
            values = region()
            emitter.checks.settle()
            leave(emitter, end, values, like)
    results = [replace(value, text=code.name()) for value in like]
    code.start(end, results)
    return results


def leave(emitter: Emitter, label: str, values: Sequence[Value], likes: Sequence[Value], *before: str) -> None:
    """The end of a block, which goes on at another with values like `made`, after some of type `index`."""
    given = [_as(emitter, value, like) for value, like in zip(values, likes, strict=True)]
    texts = ", ".join([*before, *(value.text for value in given)])
    types = ", ".join([*("index" for _ in before), *(value.type for value in given)])
    emitter.code.put(f"cf.br {label}({texts} : {types})" if texts else f"cf.br {label}")


def _as(emitter: Emitter, value: Value, like: Value) -> Value:
    """A value as a scalar or a tensor, as another is, of the same sizes."""
    if like.is_scalar:
        return emitter.scalar(value)
    return emitter.shaped(emitter.tensor(value), like.shape)
