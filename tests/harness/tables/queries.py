"""The tables of queries: in `docs/queries.md`, and by layer and semiring in `docs/reference/query_tables.md`."""

import inspect

from plica.ir.op import Unsupported
from plica.lower.queries.answers import Explanations, Posterior
from plica.lower.queries.likelihood import integration
from plica.lower.queries.needs import Needs
from plica.lower.queries.query import Composed, Query, ask
from plica.lower.queries.table import QUERIES
from plica.symbolic.layers import LAYER_ROWS, FusedRow, InputRow, ProductRow, SumRow
from plica.symbolic.semirings import MAX_SUM, SEMIRINGS, Semiring
from tests.harness.tables import markdown

OF_PASSES = [query for query in QUERIES.values() if not isinstance(query.policy, Composed)]
"""The queries of one circuit that pass through it."""
NEEDS: tuple[Needs, ...] = (*(query.needs for query in OF_PASSES), integration())
"""What all of these need of a circuit, and `IntegrateQuery`."""
_COLUMNS = (*NEEDS, integration(MAX_SUM))
_KINDS = {InputRow: "input", SumRow: "sum", ProductRow: "product", FusedRow: "both at once"}


def layers_table() -> str:
    """Markdown: a row for each kind of layer, a column for each query."""
    names = [f"`{needs.function}`" for needs in NEEDS]
    lines, kinds, reasons = [], list(_KINDS), _reasons()
    for row in sorted(LAYER_ROWS.values(), key=lambda row: (kinds.index(type(row)), row.layer.__name__)):
        found = [_why(needs.lacking(row)) for needs in _COLUMNS]
        cells = ["yes" if why is None else f"no ({reasons.index(why) + 1})" for why in found]
        lines.append([f"`{row.layer.__name__}`", _KINDS[type(row)], *cells])
    return markdown(["layer", "kind", *names, "`IntegrateQuery` that maximizes"], lines)


def reasons_list() -> str:
    """Markdown: why some layers cannot be asked, by the numbers of `layers_table`."""
    return "\n".join(f"{number}. {why}" for number, why in enumerate(_reasons(), start=1))


def _reasons() -> list[str]:
    found = (_why(needs.lacking(row)) for row in LAYER_ROWS.values() for needs in _COLUMNS)
    return [why for why in dict.fromkeys(found) if why is not None]


def _why(lacking: Unsupported | None) -> str | None:
    return None if lacking is None else lacking.why.split(";")[0]


def semirings_table() -> str:
    """Markdown: a row for each query, a column for each semiring in which a circuit is compiled."""
    columns = ["query", *(f"`{name}`" for name in SEMIRINGS)]
    rows = ([f"`{needs.function}`", *(_computed(needs, own) for own in SEMIRINGS.values())] for needs in NEEDS)
    return markdown(columns, rows)


def passes_table() -> str:
    """Markdown: for each query its passes through the circuit, and what native files and `plica export` call it."""
    lines = []
    for query in OF_PASSES:
        passes = "up and down" if query.needs.sums else "up"
        entries = ", ".join(f"`{entry.name}`" for entry in query.entries)
        lines.append([f"`{query.function}`", passes, entries or "not"])
    return markdown(["query", "passes", "in native files"], lines)


def compositions_table() -> str:
    """Markdown: for each query that is a composition of operators, what it is made of, and what it needs."""
    lines = []
    for query in QUERIES.values():
        if isinstance(query.policy, Composed):
            call = f"`{query.function}{signature_of(query)}`"
            lines.append([call, query.policy.operators, query.policy.needs_deterministic or "nothing"])
    return markdown(["query", "made of", "must be deterministic"], lines)


def signature_of(query: Query[Composed]) -> str:
    """The parameters of a query by name, such as `(p, q)`."""
    return f"({', '.join(inspect.signature(query.ask).parameters)})"


def _computed(needs: Needs, own: Semiring) -> str:
    """In what a query computes, and what becomes of negative weights."""
    carrier = needs.carrier(own)
    return f"`{carrier.name}`" if carrier.negative or not own.negative else f"`{carrier.name}`; no negative weights"


def stub() -> str:
    """The names of `plica.queries` for editors and type checkers, which do not read the table."""
    homes = {"Explanations": Explanations, "Posterior": Posterior, "ask": ask}
    homes |= {name: query.ask for name, query in QUERIES.items()}
    imports = sorted(f"from {home.__module__} import {name}" for name, home in homes.items())
    names = [f'    "{name}",' for name in homes]
    head = "# Made by `python -m tests.harness.generated`: the names of plica.queries for editors."
    return "\n".join([head, *imports, "", "__all__ = [", *names, "]", ""])
