"""Writes the sources of the reference: a page for each module, and one for each of its public names."""

import inspect
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from textwrap import indent
from typing import Any

from public_names import MODULES, kinds, module_of
from shown_examples import Shown, examples_of
from sphinx.application import Sphinx

FOLDER = "reference"
_DIRECTIVES = {"classes": "autoclass", "functions": "autofunction"}
_CONSTANTS = {
    "plica.numpy.e": "Euler's number, the base of natural logarithms.",
    "plica.numpy.pi": "The ratio of a circle's circumference to its diameter.",
    "plica.numpy.inf": "Positive infinity.",
    "plica.numpy.nan": "Not a number; in rows of data a missing value.",
    "plica.numpy.newaxis": "A new axis of length 1, in an index: ``x[:, newaxis]``.",
    "plica.symbolic.parameters.ParameterFactory": "A function that makes a parameter of a shape.",
}
_INDEX = """Reference
=========

The public names by module, the :doc:`command line <command_line>`, and :doc:`tables of queries <query_tables>`. The
search finds a name, too.

.. list-table::
   :widths: auto

{rows}

.. toctree::
   :hidden:

   command_line
   query_tables
{modules}
"""


def _title(text: str) -> str:
    return f"{text}\n{'=' * len(text)}\n"


def file_of(full_name: str, taken: set[str]) -> str:
    """The file name of a page: the full name; one that differs from another's by its case alone gets `_class`."""
    name = full_name if full_name.lower() not in taken else f"{full_name}_class"
    taken.add(name.lower())
    return name


def index_page() -> str:
    """The page that lists the modules: of each the first line of what it says of itself."""
    rows = "\n".join(
        f"   * - :doc:`{module}`\n     - {_escaped_line((module_of(module).__doc__ or '').strip().splitlines()[0])}"
        for module in MODULES
    )
    return _INDEX.format(rows=rows, modules="\n".join(f"   {module}" for module in MODULES))


def module_page(module: str, files: dict[str, str]) -> str:
    """The page of a module: its text, and a table of its names."""
    home = _importable(module)
    below = module[len(home) + 1 :]
    text = [_title(module), f".. automodule:: {module}\n   :no-members:\n" if home == module else _described(module)]
    for kind, names in kinds(module).items():
        if names:
            rows = "\n".join(f"   {below}.{name}" if below else f"   {name}" for name in names)
            text.append(
                f".. rubric:: {kind.capitalize()}\n\n.. currentmodule:: {home}\n\n"
                f".. autosummary::\n   :nosignatures:\n\n{rows}\n"
            )
    pages = "\n".join(f"   {name.rpartition('.')[2]} <api/{file}>" for name, file in files.items())
    text.append(f".. toctree::\n   :hidden:\n\n{pages}\n")
    return "\n".join(text)


def _importable(module: str) -> str:
    """The module itself, or the one that has it as an attribute: `plica.numpy.linalg` is made when it is asked for."""
    return "plica.numpy" if module.startswith("plica.numpy.") else module


def _described(module: str) -> str:
    text = inspect.cleandoc(module_of(module).__doc__ or "")
    return f".. py:module:: {module}\n\n" + "\n".join(escaped(text.splitlines())) + "\n"


def name_page(module: str, name: str, kind: str) -> str:
    """The page of a name: what its docstring says, and examples that run."""
    home = _importable(module)
    path = f"{home}::{module[len(home) + 1 :]}.{name}" if home != module else f"{module}::{name}"
    lines = [_title(name)]
    if kind == "values":
        lines += _value(module, name)
    else:
        lines += [f".. {_DIRECTIVES[kind]}:: {path}"]
    if kind == "classes":
        lines += ["   :members:", "   :show-inheritance:"]
    lines.append("")
    shown = examples_of(module, name)
    if shown:
        lines += [".. rubric:: Example\n", *_shown(shown)]
    return "\n".join(lines)


def _value(module: str, name: str) -> Iterator[str]:
    """A constant: its type, what it holds where that is short, and what is written below it in the source."""
    value = getattr(module_of(module), name)
    yield f".. py:data:: {module}.{name}"
    yield f"   :type: {type(value).__name__}"
    shown = repr(value)
    if len(shown) < 80 and " at 0x" not in shown:
        yield f"   :value: {shown}"
    yield ""
    if isinstance(value, Mapping):
        keys = sorted(getattr(key, "__name__", str(key)) for key in value)
        yield f"   A table with the rows {', '.join(f'``{key}``' for key in keys)}."
    else:
        text = _CONSTANTS.get(f"{module}.{name}", inspect.getdoc(value) or "")
        yield indent("\n".join(escaped(text.splitlines()[:1])), "   ")


def _shown(examples: list[Shown]) -> Iterator[str]:
    for example in examples:
        if example.text:
            yield f".. code-block:: pycon\n\n{indent(example.text.rstrip(), '   ')}\n"
        if example.page:
            yield f"From :doc:`/{example.page}`.\n"


def write(folder: Path) -> None:
    """Write all sources; those that stay as they are keep their time, so that they are not read again."""
    expected = {folder / "index.rst"}
    taken: set[str] = set()
    described: dict[str, str] = {}
    _write(folder / "index.rst", index_page())
    for module in MODULES:
        files = {}
        for kind, names in kinds(module).items():
            for name in names:
                home = _home(getattr(module_of(module), name))
                first = described.setdefault(home, f"{module}.{name}") if home else f"{module}.{name}"
                if home == f"{module}.{name}" != first:
                    continue
                files[f"{module}.{name}"] = file_of(f"{module}.{name}", taken)
                path = folder / "api" / f"{files[f'{module}.{name}']}.rst"
                is_first = first == f"{module}.{name}"
                _write(path, name_page(module, name, kind) if is_first else alias_page(module, name, first))
                expected.add(path)
        _write(folder / f"{module}.rst", module_page(module, files))
        expected.add(folder / f"{module}.rst")
    for stale in {*folder.glob("plica*.rst"), *folder.glob("api/*.rst")} - expected:
        stale.unlink()


def _home(value: Any) -> str:
    """Where a class is defined: Sphinx lists it there as well as under the name of its page. "" for other values."""
    return f"{value.__module__}.{value.__qualname__}" if isinstance(value, type) else ""


def alias_page(module: str, name: str, first: str) -> str:
    """The page of a class that an earlier page describes."""
    return f"{_title(name)}\n.. py:class:: {module}.{name}\n\n   The class :py:class:`{first}`.\n"


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists() or path.read_text() != text:
        path.write_text(text)


# Docstrings are plain text with `code`, examples and sections; other signs of reStructuredText are text

_CODE = re.compile(r"(``.*?``|(?<!\w)`[^`\n]+`)")
_SIGNS = re.compile(r"(\*\*?(?=\S)|(?<=\S)\*|\|(?=\S)|(?<=\w)_(?!\w))")


_SECTION = re.compile(r"\w+:$")


def escaped(lines: list[str]) -> list[str]:
    """The lines of a docstring in which only `code`, lists, sections and blocks that stand further right are markup."""
    result: list[str] = []
    in_example = in_block = in_section = False
    for place, line in enumerate(lines):
        in_section |= bool(_SECTION.match(line))
        begins = line.startswith("    ") and not in_section and (place == 0 or not lines[place - 1].strip())
        if begins and not in_block:
            result += ["::", ""]
        in_block = begins or (in_block and (line.startswith("    ") or not line.strip()))
        in_example = line.lstrip().startswith(">>>") or (in_example and bool(line.strip()))
        result.append(line if in_example or in_block else _escaped_line(line))
    return result


def _escaped_line(line: str) -> str:
    head = re.match(r"\s*(?:\* )?", line)
    assert head is not None  # it matches the empty string
    parts = _CODE.split(line[head.end() :])
    return head[0] + "".join(
        f"`{part}`"
        if place % 2 and not part.startswith("``") and not re.fullmatch(r"`\w[\w.]*`", part)
        else part
        if place % 2
        else _SIGNS.sub(r"\\\1", part)
        for place, part in enumerate(parts)
    )


def _process(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:  # noqa: ARG001
    lines[:] = escaped(lines)


def setup(app: Sphinx) -> dict[str, bool]:
    """Writes the sources before Sphinx looks for them."""
    app.connect("builder-inited", lambda app: write(Path(app.srcdir) / FOLDER), priority=1)
    app.connect("autodoc-process-docstring", _process, priority=1)
    return {"parallel_read_safe": True}
