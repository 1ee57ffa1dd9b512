"""Shows which kinds the columns of a table have."""

import json

from plica.files.encoding import Encoding
from plica.files.kinds import KINDS

_SHOWN = 12  # columns of a kind that are named
_KINDS = ", ".join([*KINDS, "ignored"])


def show_kinds(encoding: Encoding) -> str:
    """One line for each kind of columns, one for each reason to ignore columns, and one on how to change them."""
    groups: dict[str, list[str]] = {}
    for column in encoding.columns:
        why, _, detail = column.why.partition(": ")
        description = f"ignored, {why}" if why else column.kind
        shown = column.format or detail
        groups.setdefault(description, []).append(f"{column.name} ({shown})" if shown else column.name)
    lines = []
    for description, names in groups.items():
        more = f", ... ({len(names):,} columns)" if len(names) > _SHOWN else ""
        lines.append(f"  {description}: {', '.join(names[:_SHOWN])}{more}")
    wholes = [column.name for column in encoding.columns if column.kind == "whole"]  # codes look like whole numbers
    example = json.dumps({(wholes or [encoding.columns[0].name])[0]: "categorical"}, ensure_ascii=False)
    return "\n".join(["columns:", *lines, f"  to change one: --columns FILE, a file with {example}; kinds: {_KINDS}"])
