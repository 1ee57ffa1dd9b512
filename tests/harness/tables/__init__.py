"""Tables of pages in Markdown, and names for editors, each made from a table of the source."""

from collections.abc import Iterable, Sequence


def markdown(columns: Sequence[str], rows: Iterable[Iterable[str]]) -> str:
    """A table in Markdown."""
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
