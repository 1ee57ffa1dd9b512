"""Rows as a stream: files, folders, addresses, frames and queries of databases, read a batch at a time.

Nothing here knows a circuit: `encoding` has the numbers of a batch, by the columns of a model.

>>> import pyarrow
>>> rows = Rows(pyarrow.table({"pet": ["cat", "dog", "cat"], "legs": [4, 4, None]}))
>>> rows.names, rows.num_rows
(('pet', 'legs'), 3)
>>> [batch.data.to_pydict() for batch in rows.batches(size=2)]
[{'pet': ['cat', 'dog'], 'legs': [4, 4]}, {'pet': ['cat'], 'legs': [None]}]
>>> [batch.rows.tolist() for batch in rows.batches(size=2, shard=(1, 2), seed=0)]
[[2, 1]]
"""

from plica.data.batch import NumberBatch as NumberBatch
from plica.data.batch import RowBatch as RowBatch
from plica.data.encoding import numbers as numbers
from plica.data.encoding import reader as reader
from plica.data.number_rows import NumberRows as NumberRows
from plica.data.rows import Rows as Rows
from plica.data.summary import Summary as Summary
from plica.data.summary import summarise as summarise
from plica.public import listing

__all__ = ["NumberBatch", "NumberRows", "RowBatch", "Rows", "Summary", "numbers", "reader", "summarise"]

__dir__ = listing(__name__)
