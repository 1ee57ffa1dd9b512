"""Examples of public names: lines of a docstring or of a page of the guide, all of which the test suite runs."""

import ast
import doctest
import inspect
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from numpy_examples import example_of
from public_names import module_of

DOCS = Path(__file__).parents[1]
_LONGEST = 24  # lines of an example that a page shows; of a longer one it gives the link


class Shown(NamedTuple):
    """An example: its text, and the page that it is from, if it is from one."""

    text: str
    page: str


@cache
def _blocks() -> list[tuple[str, str]]:
    """The examples of the guide that doctest runs, as (page, text)."""
    return [
        (page.stem, text.strip())
        for page in sorted(DOCS.glob("*.md"))
        for text in re.findall(r"^```python\n(>>>.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)
    ]


def has_example(module: str, name: str) -> bool:
    """Whether the page of a name shows an example: one of its docstring, of a method's, or of `examples_of`."""
    value = getattr(module_of(module), name)
    members = vars(value).values() if isinstance(value, type) else ()
    documented = any(">>>" in (inspect.getdoc(one) or "") for one in (value, *members))
    return documented or bool(examples_of(module, name))


def examples_of(module: str, name: str) -> list[Shown]:
    """An example of a name from its module, or else from the guide; none where its docstring has one already."""
    value = getattr(module_of(module), name)
    if ">>>" in (inspect.getdoc(value) or ""):
        return []
    if module.startswith("plica.numpy") and callable(value):
        text = example_of(f"{module}.{name}".removeprefix("plica.numpy."))
        if text:
            return [Shown(text, "")]
    return [*_of_modules(module, name, value), *_of_guide(module, name)][:1]


def _of_modules(module: str, name: str, value: Any) -> Iterator[Shown]:
    """Examples of the module that defines the name, and of the one that has it in public."""
    for home in dict.fromkeys((getattr(value, "__module__", None), module)):
        text = getattr(sys.modules.get(home or ""), "__doc__", None) or ""
        chosen = _about(name, doctest.DocTestParser().get_examples(text))
        if chosen:
            yield Shown("".join("".join(_as_typed(example)) for example in chosen), "")


def _about(name: str, examples: list[doctest.Example]) -> list[doctest.Example]:
    """The examples that name something, and those before them that they need; all where no result names it."""
    named = [bool(re.search(rf"\b{re.escape(name)}\b", example.source + example.want)) for example in examples]
    chosen: list[doctest.Example] = []
    needed: set[str] = set()
    for is_named, example in reversed(list(zip(named, examples, strict=True))):
        made, read = _names(example)
        if (is_named and example.want) or made & needed or (read & needed and not made and not example.want):
            chosen.insert(0, example)
            needed = (needed - made) | read
    return chosen or (examples if any(named) else [])


def _names(example: doctest.Example) -> tuple[set[str], set[str]]:
    """The names that an example makes, and those that it reads."""
    made: set[str] = set()
    read: set[str] = set()
    arguments: set[str] = set()
    for node in ast.walk(ast.parse(example.source)):
        if isinstance(node, ast.alias):
            made.add((node.asname or node.name).partition(".")[0])
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            made.add(node.name)
        elif isinstance(node, ast.arg):
            arguments.add(node.arg)
        elif isinstance(node, ast.Name):
            (read if isinstance(node.ctx, ast.Load) else made).add(node.id)
    return made, read - arguments


def _as_typed(example: doctest.Example) -> Iterator[str]:
    for place, line in enumerate(example.source.splitlines()):
        yield f"{'...' if place else '>>>'} {line}\n"
    yield example.want


def _of_guide(module: str, name: str) -> Iterator[Shown]:
    short = {"plica.numpy": "pnp"}.get(module, module).replace("plica.numpy", "pnp")
    patterns = [rf"\b{re.escape(short)}\.{name}\b"]
    if not module.startswith("plica.numpy"):
        patterns.append(rf"(?<![.\w]){name}\(|\bclass \w+\({name}\b")
    for pattern in patterns:
        for page, text in _blocks():
            if re.search(pattern, text):
                yield Shown(text if text.count("\n") < _LONGEST else "", page)
