"""The table of errors in `docs/native.md`."""

from plica.backend.native.scalars import SCALARS


def accuracy_table() -> str:
    """One line of Markdown for each function that is not rounded exactly: errors in units in the last place."""
    lines = ["| operation | float32 | float64 | relative to |", "|---|---|---|---|"]
    for name, row in sorted(SCALARS.items()):
        if max(row.ulps) > 0:
            single, double = row.ulps
            lines.append(f"| `{name}` | {single:g} | {double:g} | {row.relative_to} |")
    return "\n".join(lines)
