"""Which names `dir` shows of a module, and so the tab key: the public ones.

>>> import plica.templates
>>> "hclt" in dir(plica.templates), "listing" in dir(plica.templates)
(True, False)
"""

import sys
from collections.abc import Callable

__all__ = ["listing"]


def listing(module: str, *modules: str) -> Callable[[], list[str]]:
    """The `__dir__` of a module: what its `__all__` lists, some modules in it once they are loaded, and special names.

    Args:
        module: Its name.
        modules: Names of its public modules.
    """

    def names() -> list[str]:
        there = vars(sys.modules[module])
        special = (name for name in there if name.startswith("__"))
        return sorted({*there["__all__"], *special, *(name for name in modules if name in there)})

    return names
