"""Questions to compiled circuits: rows of data in, rows out; NaN is what is missing.

>>> import plica
>>> from plica.symbolic.layers import CategoricalLayer
>>> layer = CategoricalLayer([0], 1, num_categories=3)
>>> circuit = plica.compile(plica.Circuit([layer], {}, [layer]))
>>> sample(circuit, 5, seed=0).shape
torch.Size([5, 1])

They take circuits compiled for any backend and answer with its arrays. The circuit must be smooth and decomposable and
have one output of one unit; it need not be normalized. The functions are those of the table of queries
(`plica/lower/queries/table.py`); `queries.pyi` names them for editors and type checkers.
"""

from plica.lower.queries.answers import Explanations, Posterior
from plica.lower.queries.query import ask
from plica.lower.queries.table import QUERIES

__all__ = ["Explanations", "Posterior", "ask", *QUERIES]

globals().update({name: query.ask for name, query in QUERIES.items()})
