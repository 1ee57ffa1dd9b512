"""Plots of measured figures, each with machine, date and commit, and a link to the raw JSON.

Files are those of `benchmarks/results/`; a row of `PLOTS` says how one is drawn.
"""

import json
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure
from sphinx.application import Sphinx

FOLDER = "measured"
_COLOURS = ("#1f5673", "#c4572e", "#5b8c3a", "#8d6ab8", "#b3892b", "#4a9a9a", "#9aa5ad")
_HEAD = """Measured figures
================

Each plot shows one file of raw figures. Below it stand machine, date, commit and the file itself.
The page :doc:`/results` says how the figures were measured, and by which commands.

"""


class Plot(NamedTuple):
    """A plot: its title, the file that it shows, how it is drawn, and what it says."""

    title: str
    file: str
    draw: Callable[[Any], Figure]
    text: str


def milliseconds(results: Any) -> Figure:
    """Bars of the medians of each comparison, with quartiles, on a logarithmic axis."""
    rows = dict(_comparisons(results["comparisons"], ""))
    names = list(dict.fromkeys(name for row in rows.values() for name in row if "(again)" not in name))
    figure = Figure(figsize=(9, 1.2 + 0.14 * sum(len(row) for row in rows.values())), layout="constrained")
    axes = figure.subplots()
    height = 0.8 / len(names)
    for place, name in enumerate(names):
        lines = [line for line, row in enumerate(rows.values()) if name in row]
        figures = [row[name] for row in rows.values() if name in row]
        medians = np.array([one["median"] for one in figures])
        quartiles = np.abs(np.array([[one["q1"], one["q3"]] for one in figures]).T - medians)
        axes.barh(
            np.array(lines) + height * (place - len(names) / 2 + 0.5),
            medians,
            height,
            xerr=quartiles,
            color=_COLOURS[place % len(_COLOURS)],
            label=name,
            error_kw={"linewidth": 0.8},
        )
    axes.set_yticks(range(len(rows)), list(rows))
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.set_xlabel("milliseconds, median and quartiles (logarithmic)")
    axes.legend(loc="upper left", bbox_to_anchor=(1, 1), frameon=False)
    return figure


def _comparisons(node: Any, name: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    if not isinstance(node, Mapping):
        return
    if "milliseconds" in node:
        yield name, node["milliseconds"]
        return
    for key, value in node.items():
        yield from _comparisons(value, f"{name}, {key}" if name else key)


def imputation(results: Any) -> Figure:
    """The error of hidden numbers over that of the mean by the share of hidden cells, a panel for each table."""
    errors: dict[str, dict[str, dict[float, list[float]]]] = {}
    for trial in results["trials"]:
        error = trial["figures"].get("error")
        if error is not None:
            shares = errors.setdefault(trial["table"], {}).setdefault(trial["method"], {})
            shares.setdefault(trial["share"], []).append(error)
    figure = Figure(figsize=(10, 2.3 * -(-len(errors) // 5)), layout="constrained")
    panels = figure.subplots(-(-len(errors) // 5), 5, sharex=True).flat
    for axes, (table, methods) in zip(panels, sorted(errors.items()), strict=False):
        for method, colour in zip(("plica", "nearest", "iterative", "forest"), _COLOURS, strict=False):
            shares = sorted(methods.get(method, {}).items())
            means = [float(np.mean(values)) for _, values in shares]
            axes.plot([100 * share for share, _ in shares], means, "o-", color=colour, label=method, markersize=3)
        axes.set_title(table, fontsize=10)
        axes.set_xlabel("% hidden")
    figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False)
    return figure


PLOTS = (
    Plot(
        "Native files beside torch and other runtimes",
        "2026-11-27-native-2-threads.json",
        milliseconds,
        "Log-likelihoods of rows of images, by the number of rows in a call.",
    ),
    Plot(
        "Loops as machine code beside JAX and torch",
        "2026-11-26-native-loops-1-thread.json",
        milliseconds,
        "One call of a compiled loop, by its size.",
    ),
    Plot(
        "Queries beside the forward pass",
        "2026-11-23-queries-2-threads.json",
        milliseconds,
        "128 rows of 784 variables, by circuit and mode.",
    ),
    Plot(
        "Forward passes and training steps beside cirkit",
        "2026-11-22-inference-2-threads.json",
        milliseconds,
        "The same circuits with the same parameters in both libraries.",
    ),
    Plot(
        "Tables with holes beside other imputers",
        "2026-11-28-tables.json",
        imputation,
        "The error of hidden numbers over that of the column's mean, which has 1. Lower is better.",
    ),
)


def machine_of(results: Any) -> str:
    """The machine in words, as far as the file names it."""
    machine = results.get("machine") or {}
    names = ("gpu", "cpu_capability", "system")
    words = [str(machine[name]) for name in names if machine.get(name)]
    if "cores" in machine:
        words.append(f"{machine['cores']} cores, {machine.get('threads', '?')} threads")
    words += [f"{name} {machine[name]}" for name in ("torch", "python") if machine.get(name)]
    return ", ".join(words) or "not written in the file"


def _commit_of(path: Path) -> tuple[str, str]:
    """The commit that brought a file as it is, and its date; ("unknown", "") outside of a git checkout."""
    command = ["git", "log", "-1", "--format=%h %cs", "--", path.name]
    answer = subprocess.run(command, cwd=path.parent, capture_output=True, text=True, check=False)
    commit, _, date = answer.stdout.strip().partition(" ")
    return commit or "unknown", date


def _section(plot: Plot, path: Path, results: Any) -> str:
    commit, committed = _commit_of(path)
    date = (results.get("date") if isinstance(results, Mapping) else None) or committed
    return (
        f"{plot.title}\n{'-' * len(plot.title)}\n\n{plot.text}\n\n"
        f".. figure:: {path.stem}.svg\n   :alt: {plot.title}\n   :width: 100%\n\n"
        f"   Machine: {machine_of(results)}. Date: {date}. Commit: ``{commit}``. "
        f"Raw figures: :download:`{path.name} <../../benchmarks/results/{path.name}>`.\n\n"
    )


def _write(app: Sphinx) -> None:
    root, folder = Path(app.srcdir).parent, Path(app.srcdir) / FOLDER
    folder.mkdir(exist_ok=True)
    text = _HEAD
    for plot in PLOTS:
        path = root / "benchmarks" / "results" / plot.file
        results, picture = json.loads(path.read_text()), folder / f"{path.stem}.svg"
        text += _section(plot, path, results)
        if not picture.exists() or picture.stat().st_mtime < max(path.stat().st_mtime, Path(__file__).stat().st_mtime):
            plot.draw(results).savefig(picture, metadata={"Date": None})
    page = folder / "index.rst"
    if not page.exists() or page.read_text() != text:
        page.write_text(text)


def setup(app: Sphinx) -> dict[str, bool]:
    """Draws the plots before Sphinx looks for sources."""
    app.connect("builder-inited", _write, priority=2)
    return {"parallel_read_safe": True}
