"""The logger `plica` of the standard library: it tells of decisions that are slow or surprising.

Nothing is shown unless the program that uses Plica asks for it, for example by `logging.basicConfig(level="INFO")`.
INFO is for decisions, DEBUG for what single calls do.

>>> LOGGER.name
'plica'
"""

import logging

__all__ = ["LOGGER"]

LOGGER = logging.getLogger("plica")
LOGGER.addHandler(logging.NullHandler())
