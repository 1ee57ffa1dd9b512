"""Questions to compiled circuits: rows of data in, rows out; NaN is what is missing.

>>> import plica
>>> from plica.symbolic.layers import CategoricalLayer
>>> layer = CategoricalLayer([0], 1, num_categories=3)
>>> circuit = plica.compile(plica.Circuit([layer], {}, [layer]))
>>> plica.queries.sample(circuit, 5, seed=0).shape
torch.Size([5, 1])

They take circuits compiled for any backend and answer with its arrays. The circuit must be smooth and decomposable and
have one output of one unit; it need not be normalized. The functions are those of the table of queries
(`plica/lower/queries/table.py`); `queries.pyi` names them for editors and type checkers.
"""

from importlib import import_module
from typing import Any

from plica.lower.queries.table import QUERIES
from plica.public import listing

_OTHERS = {"Explanations": "answers", "Posterior": "answers", "ask": "query"}

__all__ = [*_OTHERS, *QUERIES]


def __getattr__(name: str) -> Any:
    """A public name, imported now and kept."""
    if name in QUERIES:
        value: Any = QUERIES[name].ask
    elif name in _OTHERS:
        value = getattr(import_module(f"plica.lower.queries.{_OTHERS[name]}"), name)
    else:
        raise AttributeError(f"module 'plica.queries' has no attribute {name!r}")
    globals()[name] = value
    return value


__dir__ = listing(__name__)
