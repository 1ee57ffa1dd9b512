"""`python -m benchmarks.explorer`: the circuit explorer in Chromium: time of layout, and frames in a second of moving.

The page shows a circuit of 4,163 layers over 28 x 28 pixels, or with `--side 32` of 5,457. A pointer drags it, then the
wheel zooms in and out again, two seconds each, and then two fingers pinch. A frame counts when the browser shows it
(`requestAnimationFrame`), whether or not the page drew in it. The control is a page with an empty canvas of the size.

Needs Playwright and Chromium, as the tests of the explorer do. A browser without a GPU draws by the processor.
"""

from __future__ import annotations

import shutil
import statistics
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.command import benchmark_parser
from benchmarks.harness import Settings
from benchmarks.machine import save

_CONTROL = "<!DOCTYPE html><canvas style='width:100%;height:600px;touch-action:none'></canvas>"
_COUNT = """() => {
  const shown = window.shown = [];
  const next = (time) => { if (window.shown === shown) { shown.push(time); requestAnimationFrame(next); } };
  requestAnimationFrame(next);
}"""
_GAPS = "() => { const times = shown; shown = null; return times.slice(1).map((time, i) => time - times[i]); }"
_SECONDS = 2.0


def write_page(path: Path, side: int) -> int:
    """Write the page of a circuit over `side` x `side` pixels; how many layers it has."""
    from plica.explore import explore
    from plica.templates.data_modalities import image_data

    circuit = image_data(
        (1, side, side),
        "quad-graph",
        input_layer="categorical",
        num_values=2,
        num_input_units=1,
        sum_product_layer="cp-t",
        num_sum_units=1,
    )
    explore(circuit, path, image_shape=(1, side, side))
    return len(circuit.layers)


def frames(tab: Any) -> dict[str, Any]:
    """Of each way to move: frames in a second, and the longest gap in ms."""
    found = {}
    for name, move in {"drag": _drag, "wheel": _wheel, "pinch": _pinch}.items():
        tab.evaluate(_COUNT)
        move(tab)
        gaps = tab.evaluate(_GAPS)
        found[name] = {"frames per second": 1000 * len(gaps) / sum(gaps), "longest gap, ms": max(gaps)}
    return found


def _steps(tab: Any, step: Any) -> None:
    start = tab.evaluate("performance.now()")
    place = 0
    while tab.evaluate("performance.now()") < start + 1000 * _SECONDS:
        step(place)
        place += 1


def _drag(tab: Any) -> None:
    tab.mouse.move(500, 400)
    tab.mouse.down()
    _steps(tab, lambda place: tab.mouse.move(500 + 8 * (place % 20), 400 + 5 * (place % 20)))
    tab.mouse.up()


def _wheel(tab: Any) -> None:
    tab.mouse.move(500, 400)
    _steps(tab, lambda place: tab.mouse.wheel(0, -120 if place % 60 < 30 else 120))


def _pinch(tab: Any) -> None:
    session = tab.context.new_cdp_session(tab)

    def touch(kind: str, gap: float) -> None:
        points = [] if kind == "touchEnd" else [{"x": 500 - gap, "y": 400}, {"x": 500 + gap, "y": 400}]
        session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})

    touch("touchStart", 40)
    _steps(tab, lambda place: touch("touchMove", 40 + 4 * (30 - abs(place % 60 - 30))))
    touch("touchEnd", 0)


def measure(browser: Any, path: Path, ready: str) -> tuple[float, dict[str, Any]]:
    """The milliseconds of the layout of a page opened anew, 0 of the control, and its frames."""
    tab = browser.new_page(viewport={"width": 1280, "height": 800}, has_touch=True)
    tab.set_default_timeout(120_000)
    tab.goto(path.as_uri())
    tab.wait_for_selector(ready)
    layout = tab.evaluate("window.plicaExplorerState?.layout.milliseconds ?? 0")
    found = frames(tab)
    tab.close()
    return layout, found


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse the command line and run."""
    from playwright.sync_api import sync_playwright

    parser = benchmark_parser("explorer", "The circuit explorer in Chromium.", rounds=5)
    parser.add_argument("--side", type=int, default=28, help="pixels of a side of the image (28)")
    options = parser.parse_args(arguments)
    report: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        page, control = Path(folder) / "page.html", Path(folder) / "control.html"
        report["layers"] = write_page(page, options.side)
        control.write_text(_CONTROL)
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        rounds = [
            (measure(browser, page, "html[data-laid-out]"), measure(browser, control, "canvas"))
            for _ in range(options.rounds)
        ]
        report["browser"] = browser.version
        browser.close()
    layouts = [layout for (layout, _), _ in rounds]
    report["layout, ms"] = {"median": statistics.median(layouts), "all": layouts}
    for name in ("drag", "wheel", "pinch"):
        for page_name, which in (("explorer", 0), ("control", 1)):
            rates = [found[which][1][name]["frames per second"] for found in rounds]
            gap = max(found[which][1][name]["longest gap, ms"] for found in rounds)
            report[f"{name}, {page_name}"] = {"frames per second": statistics.median(rates), "longest gap, ms": gap}
            print(f"{name:6s}{page_name:10s}{statistics.median(rates):7.1f} frames/s, longest gap {gap:5.0f} ms")
    print(f"{report['layers']:,} layers laid out in {report['layout, ms']['median']:.0f} ms")
    save(options.out, report, Settings(rounds=options.rounds), options.threads, {})


if __name__ == "__main__":
    main()
