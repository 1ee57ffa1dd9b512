"""`plica inspect`: what a native file holds, without running anything of it."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from plica.cli.errors import one_line_errors
from plica.cli.native_files import KEY_OPTION, public_key_of

if TYPE_CHECKING:
    from plica.runtime.container import Image
    from plica.runtime.manifest import Entry, Manifest, Target, Tensor


_SHOWN = 6  # categories of a column


@click.command(short_help="Show what a native file holds.")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print the whole manifest as JSON.")
@KEY_OPTION
@one_line_errors
def inspect(file: Path, as_json: bool, public_key: str | None) -> None:
    """Show the entry points of FILE with their types, its targets, constants and parts, and where it comes from.

    Every byte of the file is checked; nothing of it runs, and torch is not needed.
    """
    from plica.runtime.container import read

    key = public_key_of(public_key)
    image = read(file, key)
    if as_json:
        parts = [asdict(part) for part in image.parts.values()]
        click.echo(json.dumps({**asdict(image.manifest), "parts": parts, "signer": image.signer.hex()}, indent=2))
        return
    click.echo(report(image, trusted=key is not None))


def report(image: "Image", *, trusted: bool) -> str:
    """The report on a file that was checked.

    Args:
        image: The file.
        trusted: Whether its signature was checked by a key that the user gave.
    """
    from plica.runtime.container import version_of

    manifest = image.manifest
    facts = [
        (
            "file",
            f"{_plain(image.path)}, {len(image.view):,} bytes, version {version_of(image.manifest)} of the format",
        ),
        *(
            ("beside", f"{part.file}, {part.length:,} bytes, its {part.name}")
            for part in image.parts.values()
            if part.file
        ),
        ("signed", _signed(image.signer, trusted)),
        *((name, _plain(text)) for name, text in manifest.provenance.items()),
    ]
    sections = (
        ("", _columns(facts)),
        ("entries", [line for entry in manifest.entries for line in _entry(entry, manifest)]),
        ("columns", _table_columns(manifest)),
        ("targets", _targets(manifest)),
        ("constants", _constants(manifest)),
        (
            "parts",
            _columns([(part.name, f"{part.length:,} bytes", part.sha256, part.file) for part in image.parts.values()]),
        ),
    )
    return "\n\n".join("\n".join(([title] if title else []) + lines) for title, lines in sections if lines)


def _signed(signer: bytes, trusted: bool) -> str:
    if not signer:
        return "no"
    return f"by {signer.hex()}" + ("" if trusted else " (not checked; pass --public-key to check it)")


def _entry(entry: "Entry", manifest: "Manifest") -> list[str]:
    from plica.runtime.entry_points import free_sizes, signature

    notes = [_plain(entry.text)] if entry.text else []
    if entry.name == manifest.main:
        notes.append("main entry: runs when the loaded file is called")
    if entry.name in manifest.also:
        notes.append("runs in place of the main entry for data of this argument's kind")
    if not entry.public:
        notes.append("called by other entries alone")
    if entry.rows is not None and entry.rows.chunk is not None:
        notes.append(f"{entry.rows.chunk} rows of {entry.rows.symbol} at a time")
    if entry.fallback is not None:
        notes.append(f"rows whose bound fails are computed by {entry.fallback.entry}")
    if entry.draws:
        free = "".join(f", {name}" for name in free_sizes(entry))
        notes.append(f"draws {', '.join(map(str, entry.draws))}; takes seed{free}")
    changing = {tensor.name for tensor in manifest.tensors if tensor.updatable}
    changing.update(name for fold in manifest.folds for name in fold.outputs)
    if constants := [name for name in entry.constants if name in changing]:
        notes.append(f"takes the constants {', '.join(constants)}")
    return [f"  {signature(entry)}", *(f"      {note}" for note in notes)]


def _targets(manifest: "Manifest") -> list[str]:
    return _columns([(target.name, target.architecture, _runs_here(target)) for target in manifest.targets])


def _runs_here(target: "Target") -> str:
    from plica.runtime.machine import misfit

    reason = misfit(target)
    return f"does not run here: {reason}" if reason else "runs here"


def _constants(manifest: "Manifest") -> list[str]:
    computed = {name: fold.function for fold in manifest.folds for name in fold.outputs}
    return _columns(
        [
            (
                str(tensor.type),
                f"computed by {computed[tensor.name]}" if tensor.name in computed else _updates(tensor),
            )
            for tensor in manifest.tensors
        ]
    )


def _table_columns(manifest: "Manifest") -> list[str]:
    """The columns of the table: names, kinds and the first categories."""
    if manifest.encoding is None:
        return []
    from plica.files.native_tables import table_of_json

    return _columns(
        [
            (_plain(column.name), column.kind, _plain(_shown(column.categories)))
            for column in table_of_json(manifest.encoding)[0].columns
        ]
    )


def _shown(categories: Sequence[object]) -> str:
    names = [f"{category!s:.30}" for category in categories[:_SHOWN]]
    return ", ".join(names) + (f" and {len(categories) - _SHOWN} more" if len(categories) > _SHOWN else "")


def _updates(tensor: "Tensor") -> str:
    """How a constant can be replaced."""
    if not tensor.parts:
        return ("", "can be updated")[tensor.updatable]
    names = list(tensor.updates)
    return f"can be updated: {', '.join(names[:4])}{f' and {len(names) - 4} more' if len(names) > 4 else ''}"


def _columns(rows: Sequence[tuple[str, ...]]) -> list[str]:
    if not rows:
        return []
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        ("  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))).rstrip() for row in rows
    ]


def _plain(text: str) -> str:
    """Text of the file with control characters escaped, since these would steer a terminal."""
    return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in text)
