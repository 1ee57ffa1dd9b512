"""Operations from outside that are gone after a test."""

from collections.abc import Iterator
from contextlib import contextmanager

from plica import ops
from plica.backend.torch.operations import ROWS
from plica.eager import namespace


@contextmanager
def own_operations() -> Iterator[None]:
    """What is added within is in no table after it."""
    before, rows = set(ops.OPS), set(ROWS)
    try:
        yield
    finally:
        for name in {*ops.OPS} - before:
            for table in (ops.ADDED, *ops._TABLES):
                table.pop(name, None)
        for name in {*ROWS} - rows:
            del ROWS[name]
        namespace.__getattr__.cache_clear()  # type: ignore[attr-defined]
