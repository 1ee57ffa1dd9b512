"""Blocks with branches between them (`cf`): an `if` of the host.

Not `scf.if`: if one returns an array from outside, the code of IREE 3.13 fails on several threads (adr/0026).
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
    """The values of one of two regions, with the shapes of `like`, as scalars where `like` has scalars."""
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
    """End a block by a branch to `label`, with the values of type `index` in `before`, then values like `likes`."""
    arguments = [_as(emitter, value, like) for value, like in zip(values, likes, strict=True)]
    texts = ", ".join([*before, *(value.text for value in arguments)])
    types = ", ".join([*("index" for _ in before), *(value.type for value in arguments)])
    emitter.code.put(f"cf.br {label}({texts} : {types})" if texts else f"cf.br {label}")


def _as(emitter: Emitter, value: Value, like: Value) -> Value:
    """A value with the shape of `like`: a scalar if `like` is one, else a tensor."""
    if like.is_scalar:
        return emitter.scalar(value)
    return emitter.shaped(emitter.tensor(value), like.shape)
