"""All queries, and the tables of which of them works for which layer and semiring: `python -m plica.lower.queries`.

>>> from plica.symbolic.layers import CategoricalLayer
>>> [needs.function for needs in QUERIES if needs.lacking(LAYER_ROWS[CategoricalLayer]) is not None]
[]
"""

from plica.ir.op import Unsupported
from plica.lower.queries.boxes import CDF, PROBABILITY
from plica.lower.queries.expect import LATENTS, MEAN, POSTERIOR, VARIANCE
from plica.lower.queries.likelihood import CONDITIONAL, LOG_LIKELIHOOD, integration
from plica.lower.queries.mixture import QUANTILE
from plica.lower.queries.mpe import MPE
from plica.lower.queries.needs import Needs
from plica.lower.queries.sample import SAMPLING
from plica.symbolic.layers import LAYER_ROWS, FusedRow, InputRow, ProductRow, SumRow
from plica.symbolic.semirings import SEMIRINGS, Semiring

QUERIES: tuple[Needs, ...] = (
    LOG_LIKELIHOOD,
    CONDITIONAL,
    CDF,
    PROBABILITY,
    QUANTILE,
    SAMPLING.needs,
    MPE.needs,
    POSTERIOR.needs,
    LATENTS.needs,
    MEAN.needs,
    VARIANCE.needs,
    integration(),
)
_KINDS = {InputRow: "input", SumRow: "sum", ProductRow: "product", FusedRow: "both at once"}


def layers_table() -> str:
    """Markdown: a row for each kind of layer, a column for each query; below it, why some cannot be asked."""
    reasons: dict[str, int] = {}
    lines = [
        _line(["layer", "kind", *(f"`{needs.function}`" for needs in QUERIES)]),
        _line(["---"] * (len(QUERIES) + 2)),
    ]
    for layer, row in sorted(
        LAYER_ROWS.items(), key=lambda item: (list(_KINDS).index(type(item[1])), item[0].__name__)
    ):
        cells = [_cell(needs.lacking(row), reasons) for needs in QUERIES]
        lines.append(_line([f"`{layer.__name__}`", _KINDS[type(row)], *cells]))
    return "\n".join([*lines, "", *(f"{number}. {why}" for why, number in reasons.items())])


def _cell(lacking: Unsupported | None, reasons: dict[str, int]) -> str:
    if lacking is None:
        return "yes"
    why = lacking.why.split(";")[0]
    return f"no ({reasons.setdefault(why, len(reasons) + 1)})"


def semirings_table() -> str:
    """Markdown: a row for each query, a column for each semiring in which a circuit is compiled."""
    lines = [_line(["query", *(f"`{name}`" for name in SEMIRINGS)]), _line(["---"] * (len(SEMIRINGS) + 1))]
    lines += [
        _line([f"`{needs.function}`", *(_computed(needs, one) for one in SEMIRINGS.values())]) for needs in QUERIES
    ]
    return "\n".join(lines)


def _computed(needs: Needs, own: Semiring) -> str:
    """In what a query computes, and what becomes of negative weights."""
    usual, other = (needs.carrier(own, negative=negative) for negative in (False, True))
    if usual is not other:
        return f"`{usual.name}`; of negative weights `{other.name}`"
    return f"`{usual.name}`" if usual.negative or not own.negative else f"`{usual.name}`; no negative weights"


def _line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"
