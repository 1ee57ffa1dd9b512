"""`plica export`: a trained model as a native file, or as text for other compilers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from plica.cli.asking import PATH
from plica.cli.errors import one_line_errors
from plica.cli.native_files import sizes_of
from plica.errors import InputError
from plica.paths import check_is_other, replacing

_WEIGHTS = ("embedded", "external")
_ALL = "all"


@dataclass(frozen=True, slots=True)
class _Options:
    """The options of the command; empty where they are left out."""

    queries: Sequence[str]
    targets: Sequence[str]
    weights: str
    updatable: Sequence[str]
    sizes: Mapping[str, int]


def _native(model: Path, out: Path, options: _Options) -> None:
    from plica.frontend.native import compile as compile_native

    if options.sizes:
        raise InputError(
            "--size applies to --to stablehlo alone; native files take any number of rows, so leave it out"
        )
    compile_native(
        model,
        out,
        targets=options.targets or ("host",),
        queries=options.queries or None,
        updatable=_ALL in options.updatable or options.updatable,
        embedded=options.weights == "embedded",
    )


def _stablehlo(model: Path, out: Path, options: _Options) -> None:
    from plica.frontend.stablehlo import stablehlo

    if options.targets:
        raise InputError("--target applies to --to native alone; leave it out: StableHLO is for all machines")
    if options.updatable:
        raise InputError(
            "--updatable applies to --to native alone; for StableHLO, --weights external keeps weights apart"
        )
    queries = options.queries
    if len(queries) > 1:
        raise InputError(f"--to stablehlo writes one function, found {len(queries)} queries; give one --query")
    text, arrays = stablehlo(
        model, queries[0] if queries else None, embedded=options.weights == "embedded", sizes=options.sizes
    )
    _write_text(out, text, arrays)


def _write_text(out: Path, text: str, arrays: Mapping[str, Any]) -> None:
    """Write both files or neither: the arrays get their final name first, and then at once the text."""
    import numpy as np

    with replacing(out) as temporary:
        temporary.write_text(text, encoding="utf-8")
        if arrays:
            with replacing(_beside(out)) as weights_file, weights_file.open("wb") as file:
                np.savez(file, **dict(arrays))


def _beside(out: Path) -> Path:
    """The file of the weights that are not in the text."""
    return out.with_name(f"{out.name}.npz")


_FORMATS: Mapping[str, Callable[[Any, Path, _Options], None]] = {
    "native": _native,
    "stablehlo": _stablehlo,
}


class _EntryName(click.ParamType):  # type: ignore[type-arg]
    """A name that native files know a query by; the table of queries is imported where a name or help is asked for."""

    name = "choice"

    def get_metavar(self, param: click.Parameter, ctx: click.Context | None = None) -> str:  # noqa: ARG002
        """The names, as help shows them."""
        return f"[{'|'.join(_entry_names())}]"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The name that was typed, or an error that lists all of them."""
        return click.Choice(_entry_names()).convert(value, param, ctx)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """The names that begin so."""
        return click.Choice(_entry_names()).shell_complete(ctx, param, incomplete)


def _entry_names() -> tuple[str, ...]:
    from plica.lower.queries.table import QUERIES

    return tuple(entry.name for query in QUERIES.values() for entry in query.entries)


@click.command(short_help="Write a trained model as a native file.")
@click.argument("model", type=PATH)
@click.option("-o", "--out", type=PATH, required=True, help="The file to write.")
@click.option(
    "--to",
    "form",
    type=click.Choice(tuple(_FORMATS)),
    default="native",
    show_default=True,
    help="native: machine code and weights. stablehlo: text for other compilers.",
)
@click.option(
    "--query",
    "queries",
    multiple=True,
    type=_EntryName(),
    help="Query to write, the main one first. Default: log-likelihood, and marginal where states may be missing.",
)
@click.option(
    "--target",
    "targets",
    multiple=True,
    metavar="NAME",
    help="Machine to compile for, the preferred one first: host (the default), x86-64-v3, aarch64, ...",
)
@click.option(
    "--weights",
    type=click.Choice(_WEIGHTS),
    default="embedded",
    show_default=True,
    help="external: weights go to a second file in the same folder; with --to stablehlo, to a .npz of the same name.",
)
@click.option(
    "--updatable",
    multiple=True,
    metavar="NAME|all",
    help="Tensor, by its name in the state dict, that a loaded file may replace (`update`); all: every one.",
)
@click.option(
    "--size",
    "sizes",
    multiple=True,
    metavar="NAME=NUMBER",
    help="With --to stablehlo: a number for a symbolic size, for example b=128 for batches of 128 rows.",
)
@one_line_errors
def export(
    model: Path,
    out: Path,
    form: str,
    queries: tuple[str, ...],
    targets: tuple[str, ...],
    weights: str,
    updatable: tuple[str, ...],
    sizes: tuple[str, ...],
) -> None:
    """Write MODEL, a file that `plica train` wrote, in a form that runs without torch.

    Missing values (NaN) are summed out by `marginal`, drawn by `conditional-sample`, and filled in by `mpe` with their
    most probable values. `plica run` runs a native file, and `plica inspect` lists its entries.
    """
    check_is_other(out, model)
    _FORMATS[form](model, out, _Options(queries, targets, weights, updatable, sizes_of(sizes)))
