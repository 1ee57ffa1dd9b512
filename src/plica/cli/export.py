"""`plica export`: a trained model as a native file, or as text for other compilers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from plica.cli.asking import PATH, load
from plica.cli.errors import one_line_errors
from plica.errors import InputError
from plica.paths import replacing

_WEIGHTS = ("embedded", "external")


def _native(circuit: Any, out: Path, queries: Sequence[str] | None, targets: Sequence[str], weights: str) -> None:
    from plica.frontend.native import compile as compile_native

    if weights != "embedded":
        raise InputError(
            "--weights external: a native file holds its weights; they may stand apart with --to mlir or stablehlo"
        )
    compile_native(circuit, out, targets=targets or ("host",), queries=queries)


def _mlir(circuit: Any, out: Path, queries: Sequence[str] | None, targets: Sequence[str], weights: str) -> None:
    from plica.frontend.native import mlir

    if targets:
        raise InputError("--target is of native files; MLIR is compiled for a machine later")
    text, arrays = mlir(circuit, queries, embedded=weights == "embedded")
    _write_text(out, text, arrays)


def _stablehlo(circuit: Any, out: Path, queries: Sequence[str] | None, targets: Sequence[str], weights: str) -> None:
    from plica.frontend.stablehlo import stablehlo

    if targets:
        raise InputError("--target is of native files; StableHLO is compiled for a machine later")
    if queries and len(queries) > 1:
        raise InputError(f"--to stablehlo writes one function, found {len(queries)} queries; give one --query")
    text, arrays = stablehlo(circuit, queries[0] if queries else None, embedded=weights == "embedded")
    _write_text(out, text, arrays)


def _write_text(out: Path, text: str, arrays: Mapping[str, Any]) -> None:
    import numpy as np

    with replacing(out) as temporary:
        temporary.write_text(text, encoding="utf-8")
    if arrays:
        with replacing(_beside(out)) as temporary, temporary.open("wb") as file:
            np.savez(file, **dict(arrays))


def _beside(out: Path) -> Path:
    """Where weights stand that are not in the text."""
    return out.with_name(f"{out.name}.npz")


_FORMATS: Mapping[str, Callable[[Any, Path, Sequence[str] | None, Sequence[str], str], None]] = {
    "native": _native,
    "mlir": _mlir,
    "stablehlo": _stablehlo,
}


@click.command(short_help="Write a trained model as a native file.")
@click.argument("model", type=PATH)
@click.option("-o", "--out", type=PATH, required=True, help="The file to write.")
@click.option(
    "--to",
    "form",
    type=click.Choice(tuple(_FORMATS)),
    default="native",
    show_default=True,
    help="native: machine code and weights in one file. mlir, stablehlo: text for other compilers.",
)
@click.option(
    "--query",
    "queries",
    multiple=True,
    type=click.Choice(("log-likelihood", "marginal", "sample", "conditional-sample", "mpe")),
    help="What is asked, the main question first. Default: log-likelihood, and marginal where states may be missing.",
)
@click.option(
    "--target",
    "targets",
    multiple=True,
    metavar="NAME",
    help="Machine that a native file is for, the best first: host (the default), x86-64-v3, aarch64, ...",
)
@click.option(
    "--weights",
    type=click.Choice(_WEIGHTS),
    default="embedded",
    show_default=True,
    help="external, with --to mlir or stablehlo: weights stand in a .npz file of the same name.",
)
@one_line_errors
def export(model: Path, out: Path, form: str, queries: tuple[str, ...], targets: tuple[str, ...], weights: str) -> None:
    """Write MODEL, a file that `plica train` wrote, in a form that runs without torch.

    What is missing (NaN) is summed out by `marginal`, drawn by `conditional-sample`, and completed as it is most
    probable by `mpe`. `plica run` asks a native file, and `plica inspect` shows what it answers.
    """
    loaded = load(model, "cpu")
    _FORMATS[form](loaded.circuit, out, queries or None, targets, weights)
