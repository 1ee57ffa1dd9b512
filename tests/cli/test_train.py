import json
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import Result
from PIL import Image

from plica.backend.torch.compiler import TorchCompiler
from plica.cli.outputs import INPAINTING
from plica.cli.outputs import NAMES as OF_ALL
from plica.files.datasets import digits, from_path
from plica.files.model import load_model
from plica.learn import mean_log_likelihood
from plica.learn.metrics import bits_per_dimension

Plica = Callable[..., Result]
NAMES = (*OF_ALL, INPAINTING)  # of images
QUICK = ("--epochs", 2, "--units", 3)


def report_of(folder: str) -> Any:
    return json.loads((Path(folder) / "report.json").read_text())


def names(folder: str) -> list[str]:
    return sorted(path.name for path in Path(folder).iterdir())


def assert_fails(result: Result, message: str, left: list[str]) -> None:
    """One line on stderr that matches, status 2, and nothing new in the current folder."""
    assert result.exit_code == 2, result.output
    assert re.search(message, result.stderr), result.stderr
    assert len(result.stderr.splitlines()) == 1, result.stderr
    assert names(".") == left


def test_a_run_writes_its_four_files(plica: Plica, toy: str) -> None:
    result = plica("train", toy, "--out", "runs/demo", *QUICK)
    assert result.exit_code == 0, result.output
    assert names("runs/demo") == sorted(NAMES)
    assert names(".") == ["runs", toy]
    assert names("runs") == ["demo"]
    with Image.open("runs/demo/samples.png") as image:
        assert image.format == "PNG"
    assert "toy: hidden-tree" in Path("runs/demo/circuit.svg").read_text()
    bits = report_of("runs/demo")["bits_per_dimension"]
    assert f"test {bits['test']:.4f} bits/dim" in result.stdout
    assert (
        "wrote model.plica, samples.png, circuit.svg, report.json, report.html, inpainting.png to runs/demo"
        in result.stdout
    )


@pytest.mark.usefixtures("without_pictures")
def test_progress_is_a_line_for_each_epoch_where_it_is_no_terminal(plica: Plica, toy: str) -> None:
    told = plica("train", toy, "--out", "out", *QUICK).stderr
    figures = r"valid \d\.\d{3}, best \d\.\d{3} bits/dim"
    lines = (f"epoch 0/2: {figures}", *(rf"epoch {number}/2: train \d\.\d{{3}}, {figures}" for number in (1, 2)), "")
    assert re.fullmatch("\n".join(lines), told)
    assert plica("train", toy, "--out", "out", "--quiet", *QUICK).stderr == ""


@pytest.mark.usefixtures("without_pictures")
def test_the_report_says_what_happened(plica: Plica, toy: str) -> None:
    plica("train", toy, "--out", "out", "--seed", 5, "--layer", "cp-t", "--dtype", "float64", *QUICK)
    report = report_of("out")
    assert report["interrupted"] is False
    assert report["seed"] == 5
    assert report["epochs_run"] == 2
    assert report["best_epoch"] in (0, 1, 2)
    assert report["seconds"] > 0
    expected = {"data": toy, "layer": "cp-t", "units": 3, "dtype": "float64", "device": "cpu", "region_graph": None}
    assert expected.items() <= report["settings"].items()
    assert report["model"]["region_graph"] == "quad-tree-2"
    assert report["data"] == {
        "name": "toy",
        "train": 44,
        "valid": 8,
        "test": 8,
        "image_shape": [1, 4, 4],
        "num_values": 3,
    }
    assert report["versions"]["torch"] == torch.__version__.partition("+")[0] or report["versions"]["torch"]
    assert report["versions"]["numpy"] == np.__version__
    assert report["versions"]["python"] == sys.version.split()[0]
    assert [entry["epoch"] for entry in report["history"]] == [0, 1, 2]
    best = min(entry["valid"] for entry in report["history"])
    assert report["bits_per_dimension"]["valid"] == pytest.approx(best, abs=1e-5)
    loaded = load_model("out/model.plica")
    assert report["model"]["parameters"] == sum(value.size for value in loaded.tensors.values())
    assert report["model"]["layers"] == len(loaded.circuit.layers)


@pytest.mark.usefixtures("without_pictures")
def test_the_first_line_and_the_report_say_what_was_chosen(plica: Plica, tmp_path: Path) -> None:
    bits = np.random.default_rng(0).integers(2, size=(60, 5))
    np.save(tmp_path / "bits.npy", bits)
    words = ("train", tmp_path / "bits.npy", "--out", "out", "--units", 2, "--epochs", 1, "--quiet")
    told = plica(*words, "--verbose")
    for start in ("clusters", "data"):
        assert re.search(rf"tried units 2, trees 4, start {start}, .*: -\d\.\d{{3}} nats ", told.stderr)
    first = told.stdout.splitlines()[0]
    assert re.fullmatch(r"bits: .*; hidden-tree, .*; units 2, trees 4, .*, pseudocount 0.3, epochs 1, batch 50", first)
    recipe = report_of("out")["recipe"]
    assert (recipe["trees"], recipe["units"], recipe["epochs"], recipe["pseudocount"]) == (4, 2, 1, 0.3)
    again = plica(*words, "--trees", 2, "--start", "draws", "--pseudocount", 2, "--verbose")
    assert "tried" not in again.stderr
    assert "; units 2, trees 2, start draws, learner adam, lr 0.1, pseudocount 2.0, epochs 1" in again.stdout


@pytest.mark.usefixtures("without_pictures")
def test_the_saved_model_has_the_reported_figures(plica: Plica, toy: str) -> None:
    plica("train", toy, "--out", "out", *QUICK)
    loaded, data = load_model("out/model.plica"), from_path(toy)
    assert loaded.options["image_shape"] == [1, 4, 4]
    assert loaded.options["num_values"] == 3
    model = TorchCompiler().compile(loaded.circuit)
    model.load_state_dict({name: torch.from_numpy(value) for name, value in loaded.tensors.items()})
    bits = bits_per_dimension(mean_log_likelihood(model, data.test, 100), 16)
    assert bits == pytest.approx(report_of("out")["bits_per_dimension"]["test"], abs=1e-5)


def test_the_same_seed_gives_the_same_files(plica: Plica, toy: str) -> None:
    for out, seed in (("a", 1), ("b", 1), ("c", 2)):
        plica("train", toy, "--out", out, "--seed", seed, "--epochs", 1, "--units", 2)
    for name in ("model.plica", "samples.png", "circuit.svg"):
        first, again, other = ((Path(out) / name).read_bytes() for out in ("a", "b", "c"))
        assert first == again
        assert (first == other) == (name == "circuit.svg")


@pytest.mark.usefixtures("without_pictures")
@pytest.mark.parametrize(
    ("options", "graph"),
    [
        (("--region-graph", "quad-tree-4", "--layer", "tucker"), "quad-tree-4"),
        pytest.param(("--region-graph", "quad-graph", "--num-values", 9), "quad-graph", marks=pytest.mark.full),
        pytest.param(("--region-graph", "linear-tree", "--layer", "cp-t"), "linear-tree", marks=pytest.mark.full),
        (("--input", "gaussian", "--batch", 7, "--lr", 0.01), "quad-tree-2"),
    ],
)
def test_options_reach_the_model(plica: Plica, toy: str, options: tuple[str, ...], graph: str) -> None:
    result = plica("train", toy, "--out", "out", *QUICK, *options)
    assert result.exit_code == 0, result.output
    report = report_of("out")
    assert report["model"]["region_graph"] == graph
    real = "gaussian" in options
    assert report["data"]["num_values"] == (None if real else 9 if "--num-values" in options else 3)


@pytest.mark.usefixtures("without_pictures")
def test_it_learns(plica: Plica, toy: str) -> None:
    plica("train", toy, "--out", "out", "--epochs", 40, "--units", 6, "--batch", 10)
    report = report_of("out")
    first, best = report["history"][0]["valid"], report["bits_per_dimension"]["valid"]
    assert first > 1.4  # 16 pixels of three values
    assert best < 0.45  # the information is 2 * log2(3) / 16 = 0.2


@pytest.mark.usefixtures("without_pictures")
def test_digits_are_known_by_name(plica: Plica) -> None:
    result = plica("train", "digits", "--out", "out", "--epochs", 1, "--units", 2, "--batch", 500)
    assert result.exit_code == 0, result.output
    report = report_of("out")
    assert report["data"] == {
        "name": "digits",
        "train": 1297,
        "valid": 250,
        "test": 250,
        "image_shape": [1, 8, 8],
        "num_values": 17,
    }
    circuit = load_model("out/model.plica").circuit
    assert circuit.num_variables == digits().num_variables


@pytest.mark.usefixtures("without_pictures")
def test_tables_and_real_columns_of_any_scale(plica: Plica) -> None:
    rng = np.random.default_rng(0)
    columns = (rng.normal(5e6, 1e4, 200), rng.normal(0, 1e-3, 200), np.full(200, 7.0))
    np.savetxt("t.csv", np.stack(columns, axis=1), delimiter=",", header="a,b,c", comments="")
    result = plica("train", "t.csv", "--out", "out", "--input", "gaussian", "--epochs", 20, "--units", 4)
    assert result.exit_code == 0, result.output
    report = report_of("out")
    assert report["model"]["region_graph"] == "random-binary-tree"
    first, last = report["history"][0]["valid"], report["bits_per_dimension"]["valid"]
    assert last < first
    assert np.isfinite(last)


@pytest.mark.usefixtures("without_pictures")
@pytest.mark.parametrize("scale", [1e-200, pytest.param(1e200, marks=pytest.mark.full)])
def test_a_density_starts_at_the_scale_of_its_column(plica: Plica, scale: float) -> None:
    """Squares of such numbers underflow or overflow: the spread silently became 1."""
    rng = np.random.default_rng(0)
    standard = rng.normal(size=(80, 2))
    bits = []
    for number in (1.0, scale):
        np.save("t.npy", standard * number)
        result = plica("train", "t.npy", "--out", "out", "--input", "gaussian", "--dtype", "float64", *QUICK)
        assert result.exit_code == 0, result.output
        bits.append([epoch["valid"] + np.log2(1 / number) for epoch in report_of("out")["history"]])
    np.testing.assert_allclose(bits[1], bits[0], atol=1e-3)  # the same model in other units


def stop_at(monkeypatch: pytest.MonkeyPatch, epoch: int) -> None:
    """Press Ctrl-C when the progress bar shows an epoch."""
    from plica.learn.progress import Progress

    show = Progress.on_epoch

    def stop(self: Progress, done: Any) -> None:
        show(self, done)
        if done.number == epoch:
            raise KeyboardInterrupt

    monkeypatch.setattr(Progress, "on_epoch", stop)


@pytest.mark.usefixtures("without_pictures")
@pytest.mark.parametrize("epoch", [0, 2])
def test_ctrl_c_keeps_the_best_model_so_far(
    plica: Plica, toy: str, monkeypatch: pytest.MonkeyPatch, epoch: int
) -> None:
    stop_at(monkeypatch, epoch)
    result = plica("train", toy, "--out", "out", "--epochs", 9, "--units", 3)
    assert result.exit_code == 130
    assert names("out") == sorted([*NAMES, "checkpoint"])
    assert result.stdout.endswith("go on with: plica train --resume out\n")
    report = report_of("out")
    assert report["interrupted"] is True
    assert report["epochs_run"] == epoch
    assert f"interrupted after {epoch} of 9 epochs" in result.stdout
    assert load_model("out/model.plica").circuit.num_variables == 16


def test_ctrl_c_while_writing_leaves_the_checkpoint(plica: Plica, toy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*args: object, **settings: object) -> None:  # noqa: ARG001
        raise KeyboardInterrupt

    monkeypatch.setattr("plica.cli.outputs.draw_circuit", stop)
    result = plica("train", toy, "--out", "runs/out", "--quiet", *QUICK)
    assert result.exit_code == 130
    assert result.stderr == "plica: interrupted; go on with: plica train --resume runs/out\n"
    assert names("runs/out") == ["checkpoint"]


@pytest.mark.usefixtures("without_pictures")
def test_an_error_while_writing_keeps_the_old_run(plica: Plica, toy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert plica("train", toy, "--out", "out", *QUICK).exit_code == 0
    before = {name: (Path("out") / name).read_bytes() for name in NAMES}

    def full(*args: object, **settings: object) -> None:  # noqa: ARG001
        raise OSError(28, "No space left on device", "out/circuit.svg")

    monkeypatch.setattr("plica.cli.outputs.draw_circuit", full)
    result = plica("train", toy, "--out", "out", "--seed", 9, "--quiet", *QUICK)
    assert_fails(
        result,
        r"^plica: error: \S*out: cannot be written: no space left on device; free some space there",
        ["out", toy],
    )
    assert {name: (Path("out") / name).read_bytes() for name in NAMES} == before
    assert names("out") == sorted([*NAMES, "checkpoint"])


@pytest.mark.usefixtures("without_pictures")
def test_a_second_run_replaces_the_first_and_keeps_other_files(plica: Plica, toy: str) -> None:
    Path("out").mkdir()
    (Path("out") / "notes.txt").write_text("mine")
    for seed in (1, 2):
        assert plica("train", toy, "--out", "out", "--seed", seed, *QUICK).exit_code == 0
        assert report_of("out")["seed"] == seed
    assert names("out") == sorted([*NAMES, "notes.txt"])


BAD = {
    "a missing file": ("nope.npy", (), r"nope\.npy: no such file; check the path"),
    "another kind of file": ("a.txt", (), r"a\.txt: cannot tell what kind of table"),
    "an empty file": ("empty.csv", (), r"empty\.csv: the file is empty \(0 bytes\)"),
    "a word": ("word.csv", (), r"word\.csv, line 3, column 2: 'red' is not a number"),
    "a missing value": ("nan.csv", (), r"nan\.csv, line 2, column 1: found nan, expected a finite number"),
    "a fraction": ("half.csv", (), r"half\.csv, line 1, column 2: 0\.5 is not an integer.*--input gaussian"),
    "out of range": (
        "toy.npy",
        ("--num-values", 2),
        r"toy\.npy, image \d+, row \d, column \d .* is out of range 0 \.\. 2",
    ),
    "another shape": ("toy.npy", ("--image-shape", "2x8"), r"toy\.npy: holds images of shape \(1, 4, 4\)"),
    "another width": ("half.csv", ("--image-shape", "2x8", "--input", "gaussian"), r"half\.csv: rows have 2 values"),
    "another key": ("toy.npy", ("--key", "x"), r"toy\.npy: holds one table, so there is no array 'x'"),
    "too few rows": ("few.csv", (), r"few\.csv: 2 row\(s\), expected at least 3"),
    "a graph of images": (
        "table.csv",
        ("--region-graph", "quad-graph"),
        r"the region graph quad-graph takes images, found rows without an image shape.*--image-shape",
    ),
    "no such device": ("toy.npy", ("--device", "abacus"), r"--device abacus: not available here .*try --device cpu"),
    "a known shape": ("digits", ("--image-shape", "8x8"), r"digits: --image-shape is known for this data set"),
    "a known range": ("digits", ("--num-values", 17), r"digits: --num-values is known for this data set"),
    "values too large to square": (
        "wild.csv",
        ("--input", "gaussian"),
        r"wild: the values of column 0 .* rescale them",
    ),
    "a device without values": (
        "toy.npy",
        ("--device", "meta"),
        r"--device meta: not available here .*try --device cpu",
    ),
    "a device without a module": ("toy.npy", ("--device", "hpu"), r"--device hpu: not available here"),
    "more units than fit": ("toy.npy", ("--units", 10**6), r"the model would have 15,\d{3},.* choose smaller --units"),
    "more values than fit": ("toy.npy", ("--num-values", 10**12), r"would have .* parameters, .*--num-values"),
    "more units than can be counted": ("toy.npy", ("--units", 10**30), r"more entries than can be counted"),
    "a pipe": ("pipe.csv", (), r"pipe\.csv: is a pipe or a device, expected a file"),
    "a cell too long": ("long.csv", (), r"long\.csv, line 1: a cell has more than 131,072 letters"),
    "widths that are several": (
        "several.npz",
        (),
        r"several\.npz: num_variables must be one integer, found int64 of shape",
    ),
    "a width that is text": ("text.npz", (), r"text\.npz: num_variables must be one integer, found <U3 of shape \(\)"),
    "a size that is a lie": ("lie.npy", (), r"lie\.npy: not a readable \.npy file .*does not fit into 128 bytes"),
    "values too small for the dtype": (
        "tiny.csv",
        ("--input", "gaussian"),
        r"tiny: the values of column 1 .* differ by .*e-201, too little for float32; rescale them or .*--dtype float64",
    ),
    "values too close for the dtype": (
        "near.csv",
        ("--input", "gaussian"),
        r"near: the values of column 1 .* differ by 0\.4\d+ around 1e\+09, which float32 rounds away; subtract",
    ),
    "a step too large": ("toy.npy", ("--lr", 1e38), r"epoch \d+.*; try a smaller learning rate"),
}


@pytest.mark.usefixtures("toy")
@pytest.mark.parametrize("case", BAD)
def test_wrong_input_is_one_line_and_leaves_nothing(plica: Plica, case: str) -> None:
    Path("a.txt").write_text("1")
    Path("empty.csv").write_text("")
    Path("word.csv").write_text("x,y\n1,2\n3,red\n")
    Path("nan.csv").write_text("1,2\nnan,3\n1,1\n")
    Path("half.csv").write_text("1,0.5\n1,1\n1,1\n0,1\n")
    Path("few.csv").write_text("1,0\n1,1\n")
    Path("table.csv").write_text("1,0\n" * 9)
    Path("wild.csv").write_text("1e300,-1e300\n-1e300,1e300\n" * 9)
    Path("long.csv").write_text("x" * 200_000 + ",y\n1,2\n")
    os.mkfifo("pipe.csv")
    packed: dict[str, Any] = dict.fromkeys(("train", "valid", "test"), np.zeros((9, 2), np.uint8))
    np.savez("several.npz", **packed, num_variables=np.array([1, 2]))
    np.savez("text.npz", **packed, num_variables="abc")
    with Path("lie.npy").open("wb") as file:
        header = {"descr": "<f8", "fortran_order": False, "shape": (10**12, 4)}
        np.lib.format.write_array_header_1_0(file, header)
    Path("tiny.csv").write_text("1,1e-200\n0,-1e-200\n" * 9)
    Path("near.csv").write_text("1,1000000000\n0,1000000001\n" * 9)
    left = names(".")
    data, options, message = BAD[case]
    result = plica("train", data, "--out", "runs/deep/out", "--quiet", *QUICK, *options)
    assert result.exit_code == 2
    assert_fails(result, "^plica: error: .*" + message, left)


@pytest.mark.usefixtures("without_pictures")
def test_a_folder_in_the_way_of_a_result(plica: Plica, toy: str) -> None:
    assert plica("train", toy, "--out", "out", *QUICK).exit_code == 0
    Path("out/model.plica").unlink()
    Path("out/model.plica").mkdir()
    before = {name: Path("out", name).read_bytes() for name in NAMES if name != "model.plica"}
    result = plica("train", toy, "--out", "out", "--seed", 9, *QUICK)
    assert_fails(result, r"^plica: error: out/model\.plica: is a folder, .*choose another output folder$", ["out", toy])
    assert {name: Path("out", name).read_bytes() for name in before} == before
    assert names("out") == sorted(NAMES)


@pytest.mark.usefixtures("without_pictures")
def test_a_link_to_a_folder_is_filled(plica: Plica, toy: str) -> None:
    Path("there").mkdir()
    Path("out").symlink_to("there")
    assert plica("train", toy, "--out", "out", *QUICK).exit_code == 0
    assert names("there") == sorted(NAMES)
    Path("out").unlink()
    Path("out").symlink_to("nowhere")
    result = plica("train", toy, "--out", "out/a", *QUICK)
    assert_fails(result, r"out/a: out is a link to nowhere; choose another", ["out", "there", toy])


@pytest.mark.usefixtures("without_pictures")
def test_names_that_are_no_text_and_batches_beyond_all_rows(plica: Plica, toy: str) -> None:
    strange = os.fsdecode(b"\xff.npy")
    Path(toy).rename(strange)
    result = plica("train", strange, "--out", os.fsdecode(b"\xfe"), "--batch", 10**30, *QUICK)
    assert result.exit_code == 0, result.output
    assert report_of(os.fsdecode(b"\xfe"))["data"]["name"] == "\\udcff"
    assert result.stdout.endswith("report.html, inpainting.png to \\udcfe\n")


def test_a_file_in_the_way_of_the_results(plica: Plica, toy: str) -> None:
    result = plica("train", toy, "--out", f"{toy}/out", *QUICK)
    assert_fails(result, r"toy\.npy/out: cannot be a folder, because toy\.npy is a file", [toy])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--image-shape", "8by8"), r"'8by8' is not an image shape; write 8x8, or 3x32x32"),
        (("--image-shape", "0x8"), r"'0x8' is not an image shape"),
        (("--layer", "dense"), r"'dense' is not one of 'cp', 'cp-t', 'tucker'"),
        (("--region-graph", "forest"), r"'forest' is not one of 'quad-tree-2'"),
        (("--units", "0"), r"0 is not in the range x>=1"),
        (("--lr", "0"), r"0(\.0)? is not in the range x>0"),
        (("--lr", "nan"), r"nan is not a finite number"),
        (("--lr", "inf"), r"inf is not a finite number"),
        (("--out", ""), r"the name of the folder is empty; write \. for the current one"),
        (("--image-shape", "9" * 5000 + "x8"), r"'9+\.\.\.9+x8' is not an image shape"),
        (("--epochs", "many"), r"'many' is not a valid integer"),
    ],
)
def test_wrong_options_are_refused_before_any_work(plica: Plica, options: tuple[str, ...], message: str) -> None:
    result = plica("train", "nope.npy", "--out", "out", *options)
    assert result.exit_code == 2
    assert re.search(message, result.stderr)
    assert names(".") == []


@pytest.mark.parametrize(
    ("module", "extra", "data"),
    [("torch", "torch", "toy.npy"), ("matplotlib.figure", "draw", "toy.npy"), ("sklearn.datasets", "digits", "digits")],
)
def test_missing_extras_are_named_before_training(
    plica: Plica, toy: str, monkeypatch: pytest.MonkeyPatch, module: str, extra: str, data: str
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    result = plica("train", data, "--out", "out", *QUICK)
    assert_fails(result, rf"pip install '\.\[{extra}\]'", [toy])


@pytest.mark.usefixtures("without_pictures")
def test_images_with_channels(plica: Plica) -> None:
    np.save("rgb.npy", np.random.default_rng(0).integers(0, 4, (40, 3, 2, 2)))
    result = plica("train", "rgb.npy", "--out", "out", *QUICK)
    assert result.exit_code == 0, result.output
    assert report_of("out")["data"]["image_shape"] == [3, 2, 2]


@pytest.mark.usefixtures("without_pictures")
def test_flat_images_and_archives(plica: Plica) -> None:
    rows = np.random.default_rng(0).integers(0, 2, (40, 16))
    np.savez("a.npz", train=rows, valid=rows[:5], test=rows[:6])
    result = plica("train", "a.npz", "--out", "out", "--image-shape", "4x4", *QUICK)
    assert result.exit_code == 0, result.output
    data = report_of("out")["data"]
    assert (data["train"], data["valid"], data["test"], data["image_shape"]) == (40, 5, 6, [1, 4, 4])


def test_the_page_shows_the_run(plica: Plica, toy: str) -> None:
    assert plica("train", toy, "--out", "out", *QUICK).exit_code == 0
    page = Path("out/report.html").read_text()
    names_of_xml = r"(?!//www\.w3\.org/)"  # which no browser asks for
    assert not re.search(rf"https?:{names_of_xml}|\"//|<link|@import|url\((?!#)|src=\"(?!data:)", page)
    for text in ("Training", "Samples", "Inpainting", "Where the time goes", "What was fused and folded", "lambda"):
        assert text in page
    assert f"{report_of('out')['bits_per_dimension']['test']:.4f}" in page
    assert page.count("<svg") == 1
    assert page.count('class="plica-explorer light"') == 1
    with Image.open("out/inpainting.png") as image:
        assert image.format == "PNG"


@pytest.mark.usefixtures("without_pictures")
def test_a_table_has_a_page_without_inpainting(plica: Plica) -> None:
    np.save("rows.npy", np.random.default_rng(0).integers(0, 2, (50, 3)))
    assert plica("train", "rows.npy", "--out", "out", *QUICK).exit_code == 0
    assert names("out") == sorted(OF_ALL)
    assert "Inpainting" not in Path("out/report.html").read_text()
