"""`report.html` of a training run: figures, curves, pictures, the circuit, its Program and where its time goes."""

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from plica.draw.curves import draw_curves
from plica.draw.page import Page
from plica.explore.page import fragment
from plica.explore.record import explore_record
from plica.files.datasets import Dataset

if TYPE_CHECKING:
    from plica.backend.torch.circuits import TorchCircuit

_ROWS = 128  # that are timed
_MOST_VALUES = 12  # of a column that are listed
_MOST_LINES = 2000  # of the Program and of what was fused and folded


@dataclass(frozen=True, slots=True)
class Compiled:
    """The texts and times of the compiled circuit for the page.

    Attributes:
        program: Its Program as text.
        explained: The list of fused and folded layers, as text.
        times: Each part of the Program with the seconds that it takes for `rows` rows.
        rows: The number of rows.
        record: What the explorer shows.
    """

    program: str
    explained: str
    times: tuple[tuple[str, float], ...]
    rows: int
    record: Mapping[str, Any]


def describe_compiled(model: "TorchCircuit", data: Dataset) -> Compiled:
    """The texts and times of a trained circuit."""
    import torch

    from plica.backend.torch.profile import profile

    rows = np.resize(data.test, (_ROWS, data.num_variables))
    times = profile(model, torch.from_numpy(rows).to(model.leaves.device))
    record = explore_record(
        model,
        title=data.name,
        names=None if data.encoding is None else [column.name for column in data.encoding.modelled],
        image_shape=data.shape,
        seconds={part.name: part.seconds for part in times},
    )
    parts = tuple((part.name, part.seconds) for part in times)
    return Compiled(str(model.program), model.explain(), parts, _ROWS, record)


def make_page(folder: Path, report: dict[str, Any], data: Dataset, compiled: Compiled) -> str:
    """The page, from the report and the pictures that lie in a folder.

    Args:
        folder: Has `samples.png` and, of images, `inpainting.png`.
        report: The content of `report.json`.
        data: The data set.
        compiled: The texts and times of the compiled circuit.
    """
    page = Page(f"{data.name}: {report['model']['region_graph']}")
    model, bits = report["model"], report["bits_per_dimension"]
    page.paragraph(
        f"{model['layers']:,} layers over {model['variables']:,} variables, {model['parameters']:,} parameters; "
        f"{report['epochs_run']} epoch{'s' * (report['epochs_run'] != 1)} in {report['seconds']:.1f} s"
        f"{', interrupted' * report['interrupted']}, of which the model of epoch {report['best_epoch']} was kept."
    )
    page.table(
        ("rows", "number", "bits per dimension"),
        [(part, f"{report['data'][part]:,}", _figure(bits[part])) for part in bits if report["data"][part]],
    )
    if "columns" in report["data"]:
        page.section("Columns")
        page.table(("column", "kind", "values", "input layers", "missing in training rows"), _columns(report["data"]))
    if report.get("held_out"):
        page.section("Hidden cells of test rows")
        page.paragraph(
            "Of the known cells of test rows 15 % are hidden, and predicted from the others of their rows. The error of"
            " numbers is that of the mean over that of the column's mean in training. Where probabilities are right, "
            "the most probable categories are right as often as expected, and intervals of 90 % hold 90 % of numbers."
        )
        page.table(("column", "hidden", "error", "right", "expected", "in 90 %"), _held_out(report["held_out"]))
    page.section("Training")
    with tempfile.TemporaryDirectory() as drawn:
        path = Path(drawn) / "curves.svg"
        curves = {
            part: [(epoch["epoch"], epoch[part]) for epoch in report["history"] if epoch.get(part) is not None]
            for part in ("train", "valid", "score")
        }
        draw_curves(curves, path, best=report["best_epoch"])
        page.drawing(path)
    page.section("Samples")
    page.picture(folder / "samples.png", "samples beside real rows")
    if (folder / "inpainting.png").exists():
        page.section("Inpainting")
        page.paragraph("The lower half of test images is hidden and filled in from the upper half.")
        page.picture(folder / "inpainting.png", "images filled in")
    page.section("The circuit")
    page.paragraph("A click on a layer, or Enter, shows what it is; the wheel zooms, dragging moves.")
    page.part(fragment(compiled.record, theme="light"))
    page.section("Where the time goes")
    total = sum(seconds for _, seconds in compiled.times)
    page.paragraph(
        f"{compiled.rows} rows through the Program below, {1e3 * total:.2f} ms in all, the least time of several "
        "calls. In eval mode parameters are computed once and kept, and faster number formats are tried first."
    )
    shares = [seconds / max(total, 1e-12) for _, seconds in compiled.times]
    rows = [
        (name, f"{1e6 * seconds:,.0f} us", f"{100 * share:.1f} %")
        for (name, seconds), share in zip(compiled.times, shares, strict=True)
    ]
    page.table(("part", "time", "share"), rows, bars=[share / max(max(shares), 1e-12) for share in shares])
    page.section("What was fused and folded")
    page.text_block(_shortened(compiled.explained))
    page.section("The Program")
    page.text_block(_shortened(compiled.program), "equations")
    page.section("Settings")
    page.table(("setting", "value"), [(name, str(value)) for name, value in report["settings"].items()])
    page.table(("package", "version"), [(name, str(value)) for name, value in report["versions"].items()])
    return page.text()


def _columns(data: dict[str, Any]) -> list[tuple[str, ...]]:
    """A line for each column of a table."""
    lines: list[tuple[str, ...]] = []
    for column in data["columns"]:
        values = [str(value) for value in column["categories"]]
        shown = " | ".join(values[:_MOST_VALUES]) + f", ... ({len(values)} in all)" * (len(values) > _MOST_VALUES)
        count = column["missing"]
        missing = "" if count is None else f"{count:,} ({100 * count / max(data['train'], 1):.1f} %)"
        lines.append((column["name"], column["kind"], shown, column["input"] or "", missing))
    return lines


def _held_out(columns: Sequence[Mapping[str, Any]]) -> list[tuple[str, ...]]:
    """A line for each column that has hidden cells."""
    lines = []
    for column in columns:
        shares = ["" if column[name] is None else f"{column[name]:.1%}" for name in ("right", "expected", "covered")]
        error = "" if column["error"] is None else f"{column['error']:.3f}"
        lines.append((column["column"], f"{column['cells']:,}", error, *shares))
    return lines


def _figure(bits: float | None) -> str:
    return "not finite" if bits is None else f"{bits:.4f}"


def _shortened(text: str) -> str:
    lines = text.splitlines()
    more = len(lines) - _MOST_LINES
    return text if more <= 0 else "\n".join([*lines[:_MOST_LINES], f"... and {more:,} more lines"])
