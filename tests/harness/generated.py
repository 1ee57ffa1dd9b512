"""What is made from the tables of the source: tables of pages, between two comments, and names for editors.

    python -m tests.harness.generated    # writes what is not up to date

A page has `<!-- operations_table -->` before a table, and `<!-- end -->` behind it.
"""

import re
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from plica.ops.elementwise import KINDS
from plica.ops.special import OPERANDS
from tests.harness import standard
from tests.harness.tables import names, queries
from tests.harness.tables.accuracy import accuracy_table
from tests.harness.tables.input_layers import input_layers_table
from tests.harness.tables.operations import operations_table
from tests.harness.tables.rules import rules_table

ROOT = Path(__file__).parents[2]


def elementwise_names() -> str:
    """The elementwise functions that are not in the standard."""
    return f"* {_listed(name for name in KINDS if name not in standard.NAMES)}: elementwise functions."


def special_names() -> str:
    """The special functions."""
    return f"* {_listed(OPERANDS)}: special functions."


def _listed(names_: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names_)


TABLES: Mapping[str, Callable[[], str]] = {
    table.__name__: table
    for table in (
        accuracy_table,
        elementwise_names,
        input_layers_table,
        operations_table,
        queries.compositions_table,
        queries.layers_table,
        queries.passes_table,
        queries.reasons_list,
        queries.semirings_table,
        rules_table,
        special_names,
    )
}
"""Tables of pages, by the name that a page calls them."""

STUBS: Mapping[str, Callable[[], str]] = {
    "src/plica/eager/names.pyi": names.stub,
    "src/plica/queries.pyi": queries.stub,
}
"""Files that are made as a whole."""

_TABLE = re.compile(r"<!-- (\w+) -->\n.*?<!-- end -->", re.DOTALL)


def tables_of(page: str) -> list[str]:
    """The names of the tables in the text of a page."""
    return _TABLE.findall(page)


def made(path: Path) -> str:
    """The text of a page or of another generated file as it should be."""
    make = STUBS.get(path.relative_to(ROOT).as_posix())
    if make is not None:
        return make()
    return _TABLE.sub(lambda table: f"<!-- {table[1]} -->\n{TABLES[table[1]]()}\n<!-- end -->", path.read_text())


def generated_files() -> list[Path]:
    """Every page that has tables, and every other generated file."""
    paths = sorted(path for folder in ("docs", "docs/native", "docs/reference") for path in ROOT.glob(f"{folder}/*.md"))
    pages = [page for page in paths if tables_of(page.read_text())]
    return [*pages, *(ROOT / path for path in STUBS)]


def write() -> None:
    """Write what is not up to date."""
    for path in generated_files():
        text = made(path)
        if text != path.read_text():
            path.write_text(text)
            sys.stdout.write(f"wrote {path.relative_to(ROOT)}\n")


if __name__ == "__main__":
    write()
