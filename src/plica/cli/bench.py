"""`plica bench`: measures Plica's models by their defaults beside others."""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from plica.cli.errors import one_line_errors
from plica.errors import InputError
from plica.extras import require
from plica.paths import check_is_target, replacing

_OUT = click.option("-o", "--out", type=click.Path(path_type=Path), help="A .json file for all figures.")
_SEEDS = click.option("--seeds", default="0", show_default=True, metavar="NUMBERS", help="Seeds, as 0,1,2.")


@click.group(short_help="Measure models beside others.")
def bench() -> None:
    """Measure Plica's models by their defaults beside other methods and published figures."""


@bench.command("tables", short_help="Fill in tables with holes, beside scikit-learn's imputers.")
@click.option("--sets", metavar="NAMES", help="Tables, as iris,wine. Default: all whose packages are installed.")
@click.option("--methods", metavar="NAMES", help="Methods, as plica,forest. Default: all.")
@click.option("--holes", default=".1,.2,.5,.8", show_default=True, metavar="SHARES", help="Shares of hidden cells.")
@click.option("--classify", is_flag=True, help="Also predict columns of categories, beside gradient boosting.")
@_SEEDS
@_OUT
@one_line_errors
def tables(sets: str | None, methods: str | None, holes: str, classify: bool, seeds: str, out: Path | None) -> None:
    """Hide cells of tables that ship in packages, learn each table with its holes, and fill them in.

    Of all rows each known cell is hidden with the same probability. Figures: the error of numbers over that of the
    mean, the share of right categories, log-likelihoods of hidden cells in nats, and how many lie in intervals of 90
    percent.
    """
    if out is not None:
        check_is_target(out)
    require("sklearn.impute")
    require("torch")
    from plica.bench.classify import CLASSIFIERS, SHARES, classified
    from plica.bench.sets import SETS
    from plica.bench.tables import METHODS, summary, trials

    absent = [name for name, table in SETS.items() if not table.is_there]
    names = _names("--sets", sets, SETS) if sets else [name for name in SETS if name not in absent]
    chosen = {name: METHODS[name] for name in (_names("--methods", methods, METHODS) if methods else METHODS)}
    shares, numbers = _numbers("--holes", holes, float, 0.0, 1.0), _numbers("--seeds", seeds, int, 0, 2**32 - 1)
    if absent and not sets:
        click.echo(f"left out, since their packages are not installed: {', '.join(absent)}")
    loaded = {name: SETS[name].load() for name in names}
    results = []
    for trial in trials(loaded, chosen, shares, numbers):
        results.append(trial)
        click.echo(
            f"{trial.table} {trial.share:.0%} seed {trial.seed} {trial.method}: "
            + (trial.failure or f"{trial.seconds + trial.seconds_answering:.1f} s")
        )
    for title, figure in _FIGURES.items():
        click.echo(f"\n{title}\n{summary(results, figure)}")
    labelled = {name: (table, SETS[name].target) for name, table in loaded.items() if SETS[name].target}
    predictions = []
    for prediction in classified(labelled, CLASSIFIERS, SHARES, numbers) if classify else ():
        predictions.append(asdict(prediction))
        click.echo(
            f"{prediction.table}.{prediction.target} {prediction.share:.0%} holes {prediction.method}: "
            f"{prediction.right:.3f} right, log loss {prediction.log_loss:.3f}"
        )
    _write(out, {"trials": [asdict(trial) for trial in results], "classified": predictions})
    failed = sum(bool(trial.failure) for trial in results)
    if failed:
        click.echo(f"{failed} of {len(results)} trials failed")


_FIGURES = {  # title: the figure
    "error of numbers, over that of the mean": "error",
    "share of right categories": "right",
    "log-likelihood of hidden numbers, nats": "log_numbers",
    "log-likelihood of hidden categories, nats": "log_categories",
    "share of numbers in intervals of 90 %": "covered",
}


@bench.command("debd", short_help="Train on binary sets, beside published figures.")
@click.argument("folder", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option("--sets", metavar="NAMES", help="Sets, as nltcs,dna. Default: all of the folder.")
@_SEEDS
@_OUT
@one_line_errors
def debd(folder: Path, sets: str | None, seeds: str, out: Path | None) -> None:
    """Train on each debd_NAME.npz of FOLDER as `plica train` does with nothing else.

    Each file has arrays train, valid and test of bits packed along axis 1, and a number num_variables. Figures are mean
    log-likelihoods of rows, in nats.
    """
    if out is not None:
        check_is_target(out)
    require("torch")
    from plica.bench.debd import HEAD, line_of, runs, sets_of

    paths = sets_of(folder, tuple(sets.split(",")) if sets else ())
    click.echo(HEAD)
    results = []
    for result in runs(paths, _numbers("--seeds", seeds, int, 0, 2**32 - 1)):
        results.append(result.as_json())
        click.echo(line_of(result))
    _write(out, {"runs": results})


def _names(option: str, text: str, table: Any) -> list[str]:
    names = [name.strip() for name in text.split(",")]
    for name in names:
        if name not in table:
            raise InputError(f"{option}: there is no {name!r}; there are {', '.join(table)}")
    return list(dict.fromkeys(names))


def _numbers(option: str, text: str, read: Callable[[str], Any], low: float, high: float) -> Sequence[Any]:
    """`0,1,2` as numbers from `low` to `high`."""
    try:
        numbers = [read(part) for part in text.split(",")]
    except ValueError:
        raise InputError(f"{option}: {text!r:.60} is no list of numbers; write them with commas between") from None
    wrong = [number for number in numbers if not low <= number <= high]
    if wrong:
        raise InputError(f"{option}: {wrong[0]} does not lie between {low:g} and {high:g}")
    return list(dict.fromkeys(numbers))


def _write(out: Path | None, figures: dict[str, Any]) -> None:
    if out is None:
        return
    from plica.cli.report import versions  # loads torch

    with replacing(out) as temporary:
        temporary.write_text(json.dumps({"versions": versions(), **figures}, indent=1) + "\n", "utf-8")
    click.echo(f"wrote {out}")
