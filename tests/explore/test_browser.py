"""The explorer in Chromium: keys, clicks and search, what it says, its width, and the rules of axe.

Run by `make test-all`, which needs Playwright and axe-core (`pip install 'plica[dev]'` has both) and Chromium: of the
system (`apt-get install chromium`, found on the path), else that of `playwright install chromium`.
"""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import plica
from plica.explore import explore
from plica.symbolic.circuit import Circuit
from plica.symbolic.layers import GaussianLayer, HadamardLayer, SumLayer
from plica.symbolic.parameters import ConstantParameter
from plica.templates.data_modalities import image_data
from tests.explore.test_record import image, program
from tests.harness.circuits import chain, coin

pytestmark = pytest.mark.browser
READY = "html[data-laid-out]"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def compiled() -> Any:
    return plica.compile(image(8, 4))


@pytest.fixture(scope="module")
def path(compiled, tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("pages") / "demo.html"
    x = torch.randint(5, (2, 64), generator=torch.Generator().manual_seed(0)).double()
    x[1, 32:] = float("nan")
    explore(compiled, file, title="the demo", image_shape=(1, 8, 8), rows=x.numpy())
    return file


@pytest.fixture
def opened(browser) -> Iterator[Any]:
    """Opens pages, and looks at the end that none complained or made a request."""
    complaints: list[str] = []
    contexts: list[Any] = []

    def open_page(path: Path, address: str = "", width: int = 1280, **options: Any) -> Any:
        context = browser.new_context(viewport={"width": width, "height": 800}, **options)
        contexts.append(context)
        tab = context.new_page()
        tab.set_default_timeout(120_000)
        tab.on("console", lambda message: complaints.append(f"{message.type}: {message.text}"))
        tab.on("pageerror", lambda error: complaints.append(str(error)))
        tab.on("request", lambda request: _note(request.url, path, complaints))
        tab.goto(f"{path.as_uri()}{address}")
        tab.wait_for_selector(READY)
        return tab

    yield open_page
    for context in contexts:
        context.close()
    assert complaints == []


def _note(url: str, path: Path, complaints: list[str]) -> None:
    """Note a request of anything but the page itself, and the worker that is made of its own text."""
    if not url.startswith((path.as_uri(), "blob:", "data:")):
        complaints.append(f"request of {url}")


def heading(tab: Any) -> str:
    text: str = tab.inner_text(".panel h2")
    return text


def click_layer(tab: Any, node: int) -> None:
    x, y = tab.evaluate("node => plicaExplorerState.view.position(node)", node)
    tab.click(".canvas > canvas", position={"x": x, "y": y})


def test_a_click_selects_a_layer_and_the_address_keeps_it(opened, path: Path, compiled) -> None:
    tab = opened(path)
    layer = compiled.symbolic.layers[70]
    click_layer(tab, 70)
    assert heading(tab) == "Sum 70"
    assert tab.url.endswith("#stage=described&layer=70")
    panel = tab.inner_text(".panel")
    assert f"{len(compiled.symbolic.layer_scope(layer))} of 64 variables" in panel
    for line in compiled.explain(layer).splitlines():
        if line.startswith("folded:"):
            assert line.partition(", ")[0].removeprefix("folded: ") in panel
        if line.startswith("  l:") or " = " in line.partition(", by ")[0]:
            assert line.strip() in panel
    again = opened(path, "#stage=described&layer=70&row=1&find=sum")
    assert heading(again) == "Sum 70"
    assert again.input_value("select") == "1"
    assert again.input_value("input[type=search]") == "sum"


def test_the_page_says_what_explain_says(opened, path: Path, compiled) -> None:
    tab = opened(path)
    assert tab.text_content(".panel section:last-child pre") == compiled.explain()


def test_tab_and_enter_reach_every_layer(opened, tmp_path: Path) -> None:
    circuit = image(4)
    explore(circuit, tmp_path / "page.html")
    tab = opened(tmp_path / "page.html")
    tab.focus("input[type=search]")
    names = []
    for _ in circuit.layers:
        tab.keyboard.press("Tab")
        tab.keyboard.press("Enter")
        names.append(heading(tab))
    assert len(names) == 62
    tab.keyboard.press("Escape")
    assert heading(tab) == "The whole circuit"
    assert names == tab.evaluate("Array.from({length: 62}, (_, node) => plicaExplorerState.graph.name(node))")


def test_stages_are_switched_and_keep_the_selection(opened, path: Path) -> None:
    tab = opened(path, "#stage=described&layer=70")
    tab.click("text=folded")
    tab.wait_for_selector("html[data-laid-out='2']")
    assert tab.evaluate("plicaExplorerState.graph.size") == 8
    assert len(tab.query_selector_all(".layers button")) == 8
    assert heading(tab) == "32 \N{MULTIPLICATION SIGN} CPT"
    tab.click(".stages >> text=optimized")
    tab.wait_for_selector("html[data-laid-out='1']")
    assert heading(tab).startswith("CPT ")
    assert tab.evaluate("plicaExplorerState.graph.size") == 191


@pytest.mark.parametrize(
    ("text", "count"),
    [("kind:hadamard", "63 of 254"), ("var:x0", "14 of 254"), ("70.weight", "1 of 254"), ("nothing", "0 of 254")],
)
def test_layers_are_searched_by_kind_variable_and_name(opened, path: Path, text: str, count: str) -> None:
    tab = opened(path)
    tab.fill("input[type=search]", text)
    assert tab.inner_text(".count").startswith(count)


NAMES: tuple[str, ...] = (
    "hours per week",
    "ratio:x",
    "</script><script>window.ran = 1</script>",
    "<img src=x onerror='window.ran = 1'>",
    "",
    "a\n\u202eb\u2028",
    "\ud800",
    "__proto__",
    "x" * 10_000,
)


@pytest.fixture(scope="module")
def named(tmp_path_factory: pytest.TempPathFactory) -> Path:
    leaves = [coin([variable], 2) for variable in range(len(NAMES))]
    product = HadamardLayer(2, len(leaves))
    circuit = Circuit([*leaves, product], {product: leaves}, [product])
    file = tmp_path_factory.mktemp("pages") / "names.html"
    rows = [[0.0] * len(NAMES), [0.0] * len(NAMES)]
    explore(
        plica.compile(circuit),
        file,
        title=NAMES[2] + NAMES[-1],
        names=NAMES,
        rows=rows,
        texts=lambda x: [NAMES] * len(x),
    )
    return file


@pytest.mark.parametrize("width", [390, 1280])
def test_names_are_no_code_and_do_not_overflow(opened, named: Path, width: int) -> None:
    tab = opened(named, f"#stage=described&layer={len(NAMES)}&row=0", width, bypass_csp=True)
    assert heading(tab) == f"Hadamard {len(NAMES)}"
    assert tab.evaluate("window.ran") is None
    assert tab.evaluate("document.documentElement.scrollWidth") == width
    chips = tab.evaluate("[...document.querySelectorAll('.chip')].map((chip) => chip.textContent)")
    assert chips[2:5] == [f"{NAMES[2]} {NAMES[2]}", f"{NAMES[3]} {NAMES[3]}", 'x4 ""']
    assert max(map(len, chips)) < 200
    assert serious(tab) == []


@pytest.mark.parametrize(
    ("text", "count"),
    [("hours per week", 2), ("var:Hours per week", 2), ("hours", 2), ("ratio:x", 2), ("var:hours", 0), ("var:x4", 2)],
)
def test_variables_are_found_by_their_whole_names(opened, named: Path, text: str, count: int) -> None:
    tab = opened(named)
    tab.fill("input[type=search]", text)
    assert tab.inner_text(".count") == f"{count} of {len(NAMES) + 1} layers"


@pytest.mark.parametrize(
    "address", ["layer=-5", "layer=", "layer=999", "row=-1&layer=x", "stage=none&row=9", "%E0%A4%A", "layer=1e0"]
)
def test_an_address_of_nothing_shows_the_whole_circuit(opened, path: Path, address: str) -> None:
    tab = opened(path, f"#{address}")
    assert heading(tab) == "The whole circuit"
    assert tab.input_value("select") == "-1"


def test_what_is_cut_is_shown_on_demand(opened, tmp_path: Path) -> None:
    leaves = [coin([variable], 2) for variable in range(100)]
    product = HadamardLayer(2, 100)
    explore(Circuit([*leaves, product], {product: leaves}, [product]), tmp_path / "page.html")
    tab = opened(tmp_path / "page.html", "#stage=described&layer=100")
    tab.click(".chips >> text=and 76 more")
    assert len(tab.query_selector_all(".chip")) == 100


def test_wheel_keys_and_buttons_zoom(opened, path: Path) -> None:
    tab = opened(path)
    scale = "plicaExplorerState.view.transform.k"
    start = tab.evaluate(scale)
    tab.mouse.move(600, 400)
    tab.mouse.wheel(0, -300)
    tab.wait_for_function(f"{scale} > {start} * 1.05")
    tab.focus(".canvas")
    tab.keyboard.press("0")
    tab.wait_for_function(f"Math.abs({scale} - {start}) < 1e-9")
    tab.keyboard.press("+")
    tab.wait_for_function(f"{scale} > {start} * 1.2")
    tab.click("[aria-label='zoom out']")
    tab.wait_for_function(f"{scale} < {start}")


def test_a_row_flows_up_and_down(opened, path: Path, compiled) -> None:
    tab = opened(path, "#stage=described&layer=253&row=1")
    record = json.loads(tab.text_content("script.record"))
    (value,) = record["rows"][1]["values"][253]
    assert tab.inner_text(".units li") == f"{float(f'{value:.5g}')}"
    assert "logarithm of the value" in tab.inner_text(".panel")
    assert "reach it at unit 0" in tab.inner_text(".panel")
    x = torch.tensor([[float("nan") if v is None else v for v in record["rows"][1]["x"]]])
    assert value == pytest.approx(compiled(x).item(), rel=1e-4)


@pytest.mark.parametrize(
    ("width", "scheme", "address"),
    [
        (390, "light", "#stage=described&layer=70&row=1"),
        (390, "dark", ""),
        (1280, "light", "#stage=folded&layer=2"),
        (1280, "dark", "#stage=described&layer=0&row=0"),
    ],
)
def test_no_width_overflows_and_axe_finds_no_serious_fault(
    opened, path: Path, width: int, scheme: str, address: str
) -> None:
    tab = opened(path, address, width, color_scheme=scheme, bypass_csp=True)
    assert tab.evaluate("document.documentElement.scrollWidth") == width
    assert serious(tab) == []


def serious(tab: Any) -> list[str]:
    import axe_playwright_python

    tab.add_script_tag(path=Path(axe_playwright_python.__file__).parent / "axe.min.js")
    found = tab.evaluate("async () => (await axe.run()).violations")
    return [
        f"{fault['id']}: {fault['nodes'][0]['html']}" for fault in found if fault["impact"] in ("serious", "critical")
    ]


def test_wheel_drag_and_two_fingers_move_the_picture(opened, path: Path) -> None:
    tab = opened(path, has_touch=True)
    scale = "plicaExplorerState.view.transform.k"
    place = "[plicaExplorerState.view.transform.x, plicaExplorerState.view.transform.y]"
    first = tab.evaluate(scale)
    tab.mouse.move(500, 400)
    tab.mouse.wheel(0, -240)
    tab.wait_for_function(f"{scale} > {first} * 1.1")
    x, y = tab.evaluate(place)
    tab.mouse.down()
    tab.mouse.move(530, 420)
    tab.mouse.up()
    assert tab.evaluate(place) == pytest.approx([x + 30, y + 20])
    zoomed = tab.evaluate(scale)
    session = tab.context.new_cdp_session(tab)
    for kind, gap in (("touchStart", 30), ("touchMove", 60), ("touchEnd", None)):
        points = [] if gap is None else [{"x": 500 - gap, "y": 400}, {"x": 500 + gap, "y": 400}]
        session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})
    assert tab.evaluate(scale) == pytest.approx(2 * zoomed)


def test_large_circuits_are_laid_out_in_blocks(opened, tmp_path: Path) -> None:
    circuit = image_data(
        (1, 28, 28),
        "quad-graph",
        input_layer="categorical",
        num_values=2,
        num_input_units=1,
        sum_product_layer="cp-t",
        num_sum_units=1,
    )
    explore(circuit, tmp_path / "large.html", image_shape=(1, 28, 28))
    tab = opened(tmp_path / "large.html")
    assert tab.evaluate("plicaExplorerState.graph.size") == 4163
    assert tab.evaluate("plicaExplorerState.layout.engine") == "elk"
    print(f"laid out in {tab.evaluate('plicaExplorerState.layout.milliseconds'):.0f} ms")
    blocks = "plicaExplorerState.layout.blocks"
    assert tab.evaluate(f"{blocks}.reduce((sum, block) => sum + block.nodes.length, 0)") == 4163
    overlap = "(a, b) => a.x < b.x + b.width && b.x < a.x + a.width && a.y < b.y + b.height && b.y < a.y + a.height"
    assert not tab.evaluate(f"{blocks}.some((a, i, all) => all.slice(i + 1).some((b) => ({overlap})(a, b)))")
    click_layer(tab, 4162)
    assert tab.evaluate("plicaExplorerState.view.marks.selected") == 4162
    tab.keyboard.press("0")
    tab.fill("input[type=search]", "kind:categorical")
    assert tab.inner_text(".count") == "784 of 4,163 layers"


@pytest.mark.parametrize("layers", [100, 5000])
def test_long_chains_stand_in_columns(opened, tmp_path: Path, layers: int) -> None:
    circuit = chain(coin([0], 1), *(SumLayer(1, 1) for _ in range(layers)))
    explore(circuit, tmp_path / "chain.html")
    tab = opened(tmp_path / "chain.html")
    left, top, right, bottom = tab.evaluate("plicaExplorerState.layout.box")
    assert 0.5 < (right - left) / (bottom - top) < 4
    click_layer(tab, layers)
    assert heading(tab) == f"Sum {layers}"


def test_numbers_that_are_not_finite_are_told_apart(opened, tmp_path: Path) -> None:
    weight = ConstantParameter(1, 1, value=np.asarray([[np.nan]]))
    circuit = plica.compile(chain(GaussianLayer([0], 1), SumLayer(1, 1, weight=weight)))
    explore(circuit, tmp_path / "page.html", rows=[[np.inf], [12345678.0]])
    tab = opened(tmp_path / "page.html", "#stage=described&layer=1&row=0")
    assert tab.inner_text(".units li") == "not a number"
    assert tab.inner_text(".chip") == "x0 \N{INFINITY}"
    assert "No most probable states: " in tab.inner_text(".panel")
    tab.select_option("select", "1")
    assert tab.inner_text(".chip") == "x0 12345678"


def test_programs_show_equations_and_nested_bodies(opened, tmp_path: Path) -> None:
    explore(program(), tmp_path / "program.html", title="a loop")
    tab = opened(tmp_path / "program.html")
    tab.click("text=for_loop 0")
    assert "for_loop[body=" in tab.inner_text(".panel pre")
    tab.click("text=open the Program, 0: for_loop")
    tab.wait_for_selector("html[data-laid-out='1']")
    assert tab.evaluate("plicaExplorerState.graph.kind(0)") == "multiply"


def test_notebooks_show_it_without_elkjs(opened, compiled, tmp_path: Path) -> None:
    file = tmp_path / "notebook.html"
    file.write_text(f"<!DOCTYPE html><html data-laid-out><body>{compiled._repr_html_()}</body></html>")
    frame = opened(file).frames[1]
    frame.wait_for_selector(READY)
    assert frame.evaluate("plicaExplorerState.layout.engine") == "rows"
    frame.click(".layers >> text='Categorical 3'")
    assert frame.inner_text(".panel h2") == "Categorical 3"


def test_the_report_shows_it(opened, compiled, tmp_path: Path) -> None:
    from plica.draw.curves import draw_curves
    from plica.draw.page import Page
    from plica.explore import explore_record
    from plica.explore.page import fragment

    report = Page("A run")
    report.table(("a" * 200, "column"), [("one", "two " * 200), ("x" * 500, "three")])
    report.text_block("a line of text " * 100)
    draw_curves({"train": [(0, 2.0), (1, 1.0)]}, tmp_path / "curves.svg")
    report.drawing(tmp_path / "curves.svg")
    report.part(fragment(explore_record(compiled), theme="light"))
    file = tmp_path / "report.html"
    file.write_text(report.text(), encoding="utf-8")
    tab = opened(file, width=390, bypass_csp=True)
    assert tab.evaluate("document.documentElement.scrollWidth") == 390
    assert serious(tab) == []
    click_layer(tab, 253)
    assert heading(tab) == "Sum 253"
