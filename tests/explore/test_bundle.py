"""The committed script of the explorer is built from the committed sources."""

import hashlib
import re
from importlib.resources import files
from pathlib import Path

import pytest

import plica

SOURCES = Path(plica.__file__).parents[2] / "explorer"
STATIC = files("plica.explore").joinpath("static")


def _hash() -> str:
    """The hash of the sources, as `explorer/build.mjs` computes it."""
    names = ["build.mjs", "package-lock.json", "package.json", "tsconfig.json"]
    names += [f"src/{path.name}" for path in (SOURCES / "src").iterdir()]
    digest = hashlib.sha256()
    for name in sorted(names):
        digest.update(f"{name}\n".encode() + (SOURCES / name).read_bytes())
    return digest.hexdigest()


@pytest.mark.parametrize("name", ["explorer.js", "explorer.css"])
def test_the_bundle_is_built_from_the_sources(name: str) -> None:
    match = re.search(r"sources ([0-9a-f]{64})", STATIC.joinpath(name).read_text(encoding="utf-8"))
    assert match is not None
    assert match[1] == _hash(), "the folder explorer has changed; run `make explorer` and commit what it writes"


def test_licences_of_what_is_bundled_come_with_it() -> None:
    text = STATIC.joinpath("LICENSES.txt").read_text(encoding="utf-8")
    lock = (SOURCES / "package-lock.json").read_text(encoding="utf-8")
    bundled = set(re.findall(r'"node_modules/((?:d3-|elkjs)[^"/]*)"', lock))
    assert len(bundled) > 5
    assert all(f"{name} " in text for name in bundled)
    assert "Permission to use, copy, modify" in STATIC.joinpath("explorer.js").read_text(encoding="utf-8")
