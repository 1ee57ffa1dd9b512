"""The table of operations in `docs/ir.md`."""

import inspect

from plica.ir.op import Op, Unsupported
from plica.ir.ranges import ANYTHING
from plica.ops import (
    DENSITIES,
    DIRECTED,
    ELEMENTWISE,
    FACTORIZATIONS,
    FOURIER,
    INDEXING,
    LINALG,
    OPAQUE,
    PACKING,
    RANDOM,
    REDUCE,
    SEARCH,
    SHAPE,
    SORTING,
    SPECIAL,
    UPDATE,
)
from tests.harness.tables import markdown

GROUPS = {
    "elementwise": ELEMENTWISE,
    "special functions": SPECIAL,
    "densities": DENSITIES,
    "reductions": REDUCE,
    "shapes": SHAPE,
    "packing": PACKING,
    "sorting": SORTING,
    "indexing": INDEXING,
    "updates": UPDATE,
    "searches": SEARCH,
    "contractions": (*LINALG, *DIRECTED),
    "factorizations": FACTORIZATIONS,
    "transforms": FOURIER,
    "random numbers": RANDOM,
    "calls of objects": OPAQUE,
}


def operations_table() -> str:
    """One line of Markdown for each operation: name, parameters, numbers of operands in its samples."""
    columns = ("operation", "kind", "operands", "parameters", "range", "decomposition")
    pairs = [(kind, op) for kind, group in GROUPS.items() for op in sorted(group, key=lambda op: op.name)]
    return markdown(columns, (_cells(kind, op) for kind, op in pairs))


def _cells(kind: str, op: Op) -> tuple[str, ...]:
    signature = inspect.signature(op.type_rule)
    params = [name for name, parameter in signature.parameters.items() if parameter.kind is parameter.KEYWORD_ONLY]
    counts = sorted({len(sample.inputs) for sample in op.samples()})
    bounds = "of operands"
    if isinstance(op.range, tuple):
        bounds = "" if op.range == ANYTHING else f"{op.range[0]:g} to {op.range[1]:g}"
    decomposition = op.decompose.why.split(":")[0] if isinstance(op.decompose, Unsupported) else "yes"
    return f"`{op.name}`", kind, " or ".join(map(str, counts)), ", ".join(params), bounds, decomposition
