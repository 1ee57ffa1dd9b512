"""Collects the messages of the logger `plica`.

with messages() as lines: ...
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from plica.logger import LOGGER


@contextmanager
def messages(level: int = logging.INFO) -> Iterator[list[str]]:
    """The messages of a level and above, as they come."""
    lines: list[str] = []
    handler, before = logging.Handler(), LOGGER.level
    handler.emit = lambda record: lines.append(record.getMessage())
    LOGGER.addHandler(handler)
    LOGGER.setLevel(level)
    try:
        yield lines
    finally:
        LOGGER.removeHandler(handler)
        LOGGER.setLevel(before)
