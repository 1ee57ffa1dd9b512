"""Every example in a docstring of the package runs and shows what it says."""

import doctest
import importlib
import linecache
import pkgutil

import pytest

import plica
from tests.harness.together import grouped

MODULES = sorted(
    module.name for module in pkgutil.walk_packages(plica.__path__, "plica.") if not module.name.endswith("__main__")
)
FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS


@grouped("name", ["plica", *MODULES])
def test_docstring_examples(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    monkeypatch.chdir(tmp_path)
    # the debugger of doctest asks, for each docstring, whether any source that was ever shown has changed
    monkeypatch.setattr(linecache, "checkcache", lambda *_: None)
    module = importlib.import_module(name)
    assert module.__doc__, f"{name} has no docstring"
    failed, _ = doctest.testmod(module, optionflags=FLAGS)
    assert failed == 0
