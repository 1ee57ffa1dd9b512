"""The display of circuits in notebooks, which stands above this folder and is found by its name when it is needed."""

import importlib
from typing import Any

_EXPLORER = "plica.explore.page"


def notebook_html(circuit: Any) -> str:
    """The explorer of a circuit or a compiled circuit, as HTML."""
    html: str = importlib.import_module(_EXPLORER).notebook_html(circuit)
    return html
