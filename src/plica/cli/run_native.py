"""`plica run`: arrays through an entry of a native file."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click
import numpy as np

from plica.cli.errors import one_line_errors
from plica.cli.native_files import KEY_OPTION, public_key_of, sizes_of
from plica.errors import InputError
from plica.paths import check_is_other
from plica.runtime.checks import SEED
from plica.tables.files import local_path

if TYPE_CHECKING:
    from plica.runtime.manifest import Manifest

_PATH = click.Path(path_type=Path)


@click.command(short_help="Run an entry of a native file on arrays.")
@click.argument("file", type=_PATH)
@click.option(
    "-i",
    "--input",
    "inputs",
    multiple=True,
    metavar="[NAME=]FILE",
    help="Argument: .npy, .npz, .csv or .parquet, a folder or an address of tables; with its name where the entry "
    "takes several.",
)
@click.option("-o", "--output", type=_PATH, required=True, help="File for the results; several arrays go to a .npz.")
@click.option("--entry", metavar="NAME", help="Entry to run; see `plica inspect`. Default: the main entry.")
@click.option("--size", "sizes", multiple=True, metavar="NAME=NUMBER", help="A size that no argument has, as n=10.")
@click.option("--seed", type=click.IntRange(0), help="Seed of random numbers.")
@click.option("--target", metavar="NAME", help="Target whose code runs. Default: the first that this machine can run.")
@KEY_OPTION
@one_line_errors
def run(
    file: Path,
    inputs: tuple[str, ...],
    output: Path,
    entry: str | None,
    sizes: tuple[str, ...],
    seed: int | None,
    target: str | None,
    public_key: str | None,
) -> None:
    """Run an entry of FILE, which `plica export` wrote, and write its results; torch is not needed.

    Where the entry computes each row by itself, as those of circuits do, rows are read, computed and written a batch at
    a time.
    """
    from plica.cli.native_arrays import (
        check_can_write_arrays,
        named_file,
        read_arrays,
        read_for_first_fitting,
        stream_for_first_fitting,
        write_arrays,
        writing_results,
    )
    from plica.runtime.module import load

    with load(file, public_key=public_key_of(public_key), target=target) as module:
        named = (entry,) if entry else (module.manifest.main, *module.manifest.also)
        entries = tuple(module[name].entry for name in named)
        check_can_write_arrays(output, entries[0])
        check_is_other(output, file, *(local_path(path) for _, path in map(named_file, inputs)))
        if entries[0].arguments and not inputs:
            takes = ", ".join(map(str, entries[0].arguments))
            raise InputError(f"--input is missing: {entries[0].name} takes {takes}; give a file, as in --input x.npy")
        with _naming_tables(file, module.manifest):
            streamed = stream_for_first_fitting(inputs, entries)
        if streamed is not None:
            chosen, stream = streamed
            others = read_arrays(stream.others, chosen)
            further = _sizes(sizes, {**others, stream.argument.name: None})
            draws = np.random.default_rng(seed) if chosen.draws else seed
            with writing_results(output, chosen) as write, _naming_tables(file, module.manifest):
                for rows in stream.batches():
                    write(module[chosen.name].arrays(**others, **{stream.argument.name: rows}, **further, seed=draws))
            return
        with _naming_tables(file, module.manifest):
            chosen, arguments = read_for_first_fitting(inputs, entries)
        point = module[chosen.name]
        further = _sizes(sizes, arguments)
        write_arrays(output, point.entry, point.arrays(**arguments, **further, seed=seed))


@contextmanager
def _naming_tables(file: Path, manifest: "Manifest") -> Iterator[None]:
    """Where the rows of a table do not fit, the error names the commands that read its cells."""
    try:
        yield
    except InputError as error:
        if manifest.encoding is None:
            raise
        problem = str(error).partition("; ")[0]  # its advice is for models without a table
        raise InputError(
            f"{problem}; {file} is of a table, of which plica run takes the numbers of variables alone: ask it with "
            "plica score, complete, sample or predict, which read cells"
        ) from error


def _sizes(words: tuple[str, ...], arguments: Mapping[str, object]) -> dict[str, int]:
    sizes = sizes_of(words)
    for name, number in sizes.items():
        if name in arguments or name == SEED:
            raise InputError(f"--size {name}={number}: {name} is no size; give arrays by --input, and a seed by --seed")
    return sizes
