"""The table of errors in `docs/native/accuracy.md`."""

from plica.backend.native.scalars import SCALARS
from tests.harness.tables import markdown


def accuracy_table() -> str:
    """One line of Markdown for each function that is not rounded exactly: errors in units in the last place."""
    rows = [
        (f"`{name}`", *(f"{ulps:g}" for ulps in row.ulps), row.relative_to)
        for name, row in sorted(SCALARS.items())
        if max(row.ulps) > 0
    ]
    return markdown(("operation", "float32", "float64", "relative to"), rows)
