"""Writes the switcher's file: the versions of `docs/versions.txt`, each below the address of the site.

`PLICA_DOCS_ADDRESS` is that address, by default `/`. The first version is the one at the address itself.
"""

import json
import os
from pathlib import Path

from sphinx.application import Sphinx

ADDRESS = os.environ.get("PLICA_DOCS_ADDRESS", "/")


def versions(text: str, address: str) -> list[dict[str, object]]:
    """The rows of the switcher, one for each line.

    >>> versions("latest 0.1", "/")[1]
    {'name': '0.1', 'version': '0.1', 'url': '/0.1/', 'preferred': False}
    """
    names = text.split()
    return [
        {"name": name, "version": name, "url": address if place == 0 else f"{address}{name}/", "preferred": place == 0}
        for place, name in enumerate(names)
    ]


def _write(app: Sphinx, _: Exception | None) -> None:
    rows = versions(Path(app.srcdir, "versions.txt").read_text(), ADDRESS)
    if app.builder.format == "html":
        Path(app.outdir, "_static", "switcher.json").write_text(json.dumps(rows, indent=1))


def setup(app: Sphinx) -> dict[str, bool]:
    """Writes the file behind the static files."""
    app.connect("build-finished", _write)
    return {"parallel_read_safe": True}
