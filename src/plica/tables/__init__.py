"""Models of mixed tables with holes, for Python: fit once, then score, complete, sample, predict and explain.

>>> import numpy as np
>>> rng = np.random.default_rng(0)
>>> size = rng.normal(10.0, 3.0, 200)
>>> table = {"size": size, "price": np.where(rng.random(200) < 0.2, np.nan, 2.0 * size), "kind": ["a", "b"] * 100}
>>> model = fit(table, units=4, epochs=2)
>>> model
TableModel(3 columns: 2 real, 1 categorical)
>>> model.score(table).shape, bool(np.isnan(model.complete(table)["price"]).any())
((200,), False)
"""

from plica.public import listing
from plica.tables.entry import fit, load
from plica.tables.recipe import Recipe
from plica.tables.table_model import TableModel

__all__ = ["Recipe", "TableModel", "fit", "load"]

__dir__ = listing(__name__)
