"""Bodies of nests as formulas: entries with operators, for rows that are more than one operation on each entry."""

from collections.abc import Callable, Sequence
from typing import Any

from plica.backend.native.mlir.emitter import Emitter
from plica.backend.native.mlir.structured import Body
from plica.backend.native.scalars import SCALARS, Scalar
from plica.backend.native.scalars.builder import Application
from plica.backend.native.scalars.values import Value as Entry
from plica.ir.dtypes import DType

__all__ = ["Entry", "function", "on_entries"]


def on_entries(emitter: Emitter, dtypes: Sequence[DType], formula: Callable[..., Any]) -> Body:
    """The body that computes a formula of one entry of each operand, in order, which have these dtypes.

    Further names (the entry of a result before it is written) are ignored. A formula returns one entry, or one for each
    result.
    """

    def body(names: Sequence[str]) -> str | Sequence[str]:
        typed_names = zip(names, dtypes, strict=False)
        result = formula(*(Entry(emitter.scalars, Scalar(name, dtype)) for name, dtype in typed_names))
        return result.scalar.text if isinstance(result, Entry) else [entry.scalar.text for entry in result]

    return body


def function(name: str) -> Callable[..., Entry]:
    """An elementwise operation on entries, whose dtype the result has."""

    def apply(*entries: Entry) -> Entry:
        code, dtype = entries[0].code, entries[0].dtype
        return Entry(code, SCALARS[name].write(code, Application(tuple(entry.scalar for entry in entries), dtype)))

    return apply
