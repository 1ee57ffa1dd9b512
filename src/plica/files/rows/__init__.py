"""Batches of rows (`batch.py`), and rows written a batch at a time (`write.py`); `plica.data` reads them.

A cell is a number, a text or a truth value; a missing cell is None, or NaN among numbers. `plica.files.columns`
interprets cells.
"""

from plica.files.rows.batch import Batch, RowFile

__all__ = ["Batch", "RowFile"]
