"""`plica train --resume`: runs that are interrupted end like runs that are not; wrong uses are one line."""

import json
import os
import re
import signal
import subprocess
import sys
import types
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import Result

from plica.learn.progress import Progress
from plica.learn.tensorboard import TensorBoard

Plica = Callable[..., Result]
pytestmark = pytest.mark.usefixtures("without_pictures")
NUMBERS = [round(0.37 * number, 2) for number in range(-20, 20)]
USUAL = ("--epochs", 4, "--units", 2, "--batch", 10)


def report_of(folder: str) -> Any:
    """The report without what differs between two runs of the same."""
    report = json.loads((Path(folder) / "report.json").read_text())
    for entry in (report, *report["history"]):
        entry.pop("seconds")
    return report | {"rows_per_second": None, "settings": report["settings"] | {"out": None}}


class Stop:
    """Presses Ctrl-C when the bar shows an epoch, once."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, epoch: int) -> None:
        show = Progress.on_epoch
        todo = [epoch]

        def stop(progress: Progress, done: Any) -> None:
            show(progress, done)
            if todo == [done.number]:
                todo.clear()
                raise KeyboardInterrupt

        monkeypatch.setattr(Progress, "on_epoch", stop)


def assert_refused(result: Result, message: str) -> None:
    assert result.exit_code == 2, result.output
    assert re.search(message, result.stderr), result.stderr


@pytest.mark.parametrize(
    "options",
    [
        pytest.param((), marks=pytest.mark.full),
        ("--learner", "adam:schedule=one-cycle", "--lr", 0.2, "--dtype", "float64"),
    ],
)
def test_an_interrupted_run_goes_on_with_its_settings(
    plica: Plica, toy: str, monkeypatch: pytest.MonkeyPatch, options: tuple[Any, ...]
) -> None:
    assert plica("train", toy, "--out", "whole", *USUAL, *options).exit_code == 0
    Stop(monkeypatch, 2)
    assert plica("train", toy, "--out", "out", *USUAL, *options).exit_code == 130
    assert report_of("out")["interrupted"]
    result = plica("train", "--resume", "out")
    assert result.exit_code == 0, result.output
    lines = [line.partition(":")[0] for line in result.stderr.splitlines()]
    assert lines == [f"epoch {number}/4" for number in range(5)]
    assert report_of("out") == report_of("whole")
    assert Path("out/model.plica").read_bytes() == Path("whole/model.plica").read_bytes()
    assert not Path("out/checkpoint").exists()
    assert_refused(plica("train", "--resume", "out"), r"--resume out: the run is finished, since out/report\.json is")


def test_a_run_that_was_finished_but_not_written_is_written(
    plica: Plica, toy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as context:
        context.setattr("plica.cli.outputs.draw_circuit", stop)
        assert plica("train", toy, "--out", "out", *USUAL).exit_code == 130
    assert plica("train", "--resume", "out").exit_code == 0
    assert plica("train", toy, "--out", "whole", *USUAL).exit_code == 0
    assert report_of("out") == report_of("whole")


@pytest.mark.parametrize(
    ("launch", "units", "is_learned"),
    [
        ("none_a/attempt_1", 2, False),
        ("none_b/attempt_1", 2, True),
        ("none_a/attempt_1", 3, True),
        ("none_a/other", 2, True),
        (None, 2, True),
    ],
)
def test_a_restart_ends_if_its_own_run_had_written_its_results(
    plica: Plica, toy: str, monkeypatch: pytest.MonkeyPatch, launch: str | None, units: int, is_learned: bool
) -> None:
    """Neither those of an earlier run count, whatever the clock of the file system says, nor those of other words."""
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "0")
    monkeypatch.setenv("TORCHELASTIC_ERROR_FILE", str(Path("none_a/attempt_0/0/error.json").absolute()))
    command = ("train", toy, "--out", "out", "--epochs", 1, "--batch", 30, "--quiet", "--units")
    assert plica(*command, 2).exit_code == 0
    os.utime("out/report.json", (2**33, 2**33))
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "1")
    if launch is None:
        monkeypatch.delenv("TORCHELASTIC_ERROR_FILE")
    else:
        Path("none_b/attempt_0").mkdir(parents=True)
        monkeypatch.setenv("TORCHELASTIC_ERROR_FILE", str(Path(launch, "0/error.json").absolute()))
    result = plica(*command, units)
    assert result.exit_code == 0, result.output
    assert ("wrote model.plica" in result.stdout) == is_learned
    assert (Path("out/report.json").stat().st_mtime != 2**33) == is_learned


@pytest.mark.full
def test_it_goes_on_from_another_folder_and_after_a_move(
    plica: Plica, toy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert plica("train", toy, "--out", "whole", *USUAL).exit_code == 0
    Stop(monkeypatch, 1)
    assert plica("train", toy, "--out", "out", *USUAL).exit_code == 130
    Path("elsewhere").mkdir()
    Path("out").rename("elsewhere/moved")
    whole = Path("whole/model.plica").read_bytes()
    monkeypatch.chdir("elsewhere")
    assert plica("train", "--resume", "moved").exit_code == 0
    assert Path("moved/model.plica").read_bytes() == whole


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("values", "options", "num_rows", "said", "trials"),
    [
        pytest.param(
            NUMBERS, USUAL, 60, "43 rows to train, 9 to validate, 9 to test; random-binary", 0, marks=pytest.mark.full
        ),
        ("pqr", (*USUAL, "--trees", 1), 60, "43 rows to train, 9 to validate, 9 to test; hidden-tree", 2),
        (NUMBERS, ("--epochs", 3), 20, "18 rows to train, none to validate, 3 to test; normal-mixtures", 0),
        pytest.param(
            NUMBERS,
            ("--epochs", 3),
            148,
            "128 rows to train, none to validate, 21 to test; normal-mixtures",
            2,
            marks=pytest.mark.full,
        ),
    ],
)
def test_typed_tables_go_on_with_the_recipe_that_was_chosen(
    plica: Plica,
    monkeypatch: pytest.MonkeyPatch,
    values: Sequence[Any],
    options: tuple[Any, ...],
    num_rows: int,
    said: str,
    trials: int,
) -> None:
    rng = np.random.default_rng(0)
    lines = [f"{rng.choice(list(values))},{rng.choice(['a', 'b'])}" for _ in range(num_rows)]
    Path("t.csv").write_text("x,kind\n" + "\n".join(lines) + "\n,?\n")
    words = ("t.csv", "--columns", "auto", "--missing", "?", *options)
    whole = plica("train", *words, "--out", "whole", "--verbose")
    assert whole.exit_code == 0, whole.output
    Stop(monkeypatch, 1)
    assert plica("train", *words, "--out", "out").exit_code == 130
    with monkeypatch.context() as context:
        context.delattr("plica.cli.run.decide")
        resumed = plica("train", "--resume", "out")
    assert resumed.exit_code == 0, resumed.output
    assert report_of("out") == report_of("whole")
    assert Path("out/model.plica").read_bytes() == Path("whole/model.plica").read_bytes()
    others = whole.stdout.splitlines()
    assert whole.stderr.count("tried ") == trials
    assert others[0].startswith(f"t: {said}")
    assert resumed.stdout.splitlines()[:-2] == others[:-2]  # the last two name seconds, and the folder


def test_what_cannot_be_resumed_is_refused(plica: Plica, toy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert_refused(plica("train", "--resume", "nowhere"), r"nowhere/checkpoint: no such file")
    assert_refused(plica("train"), r"Missing argument 'DATA'")
    assert_refused(plica("train", toy), r"Missing option '--out'")
    Stop(monkeypatch, 1)
    assert plica("train", toy, "--out", "out", *USUAL).exit_code == 130
    before = Path("out/checkpoint").read_bytes()
    assert_refused(
        plica("train", "--resume", "out", "--units", 3),
        r"--resume goes on with the settings of out; leave '--units' out",
    )
    assert_refused(plica("train", toy, "--resume", "out"), r"leave '\[?DATA\]?' out")
    np.save(toy, 2 - np.load(toy))
    assert_refused(plica("train", "--resume", "out"), r"out/checkpoint: belongs to another run: .*its data is 44 x 16")
    assert Path("out/checkpoint").read_bytes() == before
    Path("out/checkpoint").write_bytes(before[:5000])
    assert_refused(plica("train", "--resume", "out"), r"out/checkpoint: is no checkpoint, or is damaged")
    Path("out/checkpoint").write_bytes(before)
    contents = torch.load("out/checkpoint", weights_only=True)
    for lacking in ("settings", "recipe"):
        notes = {name: note for name, note in contents["notes"].items() if name != lacking}
        torch.save({**contents, "notes": notes}, "out/checkpoint")
        assert_refused(plica("train", "--resume", "out"), r"was not written by `plica train` of this version")


def test_a_new_run_that_fails_keeps_the_checkpoint_of_another_until_it_writes_its_own(
    plica: Plica, toy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    Stop(monkeypatch, 1)
    assert plica("train", toy, "--out", "out", *USUAL).exit_code == 130
    before = Path("out/checkpoint").read_bytes()
    monkeypatch.setattr("plica.learn.run.mean_of", lambda *_: float("nan"))
    assert_refused(plica("train", toy, "--out", "out", *USUAL, "--seed", 1), "the validation rows is NaN")
    assert Path("out/checkpoint").read_bytes() == before


def test_patience_ends_a_run(plica: Plica, toy: str) -> None:
    result = plica("train", toy, "--out", "out", "--epochs", 40, "--units", 2, "--patience", 2, "--min-delta", 1000)
    assert result.exit_code == 0, result.output
    report = report_of("out")
    assert (report["stopped_early"], report["epochs_run"]) == (True, 2)
    assert "stopped early after 2 of 40 epochs" in result.stdout


@pytest.mark.parametrize(
    ("learner", "message"),
    [
        ("sgd", r"there is no learner 'sgd'; choose one of adam"),
        (
            "adam:momentum=1",
            r"the learner adam has no setting 'momentum'; its settings are rate, schedule, weight_decay",
        ),
        ("adam:rate=fast", r"the learner adam: rate must be a number, found 'fast'"),
        ("adam:rate=-1", r"rate must be finite and above 0, found -1"),
        ("adam:rate=1,rate=2", r"rate is given twice"),
        ("adam:schedule=step", r"there is no schedule 'step'; choose one of constant, cosine, linear, one-cycle"),
    ],
)
def test_wrong_learners_are_refused(plica: Plica, toy: str, learner: str, message: str) -> None:
    assert_refused(plica("train", toy, "--out", "out", "--learner", learner, *USUAL), message)
    assert not Path("out").exists()


def test_the_report_says_how_the_model_learned(plica: Plica, toy: str) -> None:
    words = ("--learner", "adam:weight-decay=0.01,pseudocount=1", "--lr", 0.2)
    assert plica("train", toy, "--out", "out", *USUAL, *words).exit_code == 0
    chosen = {"rate": 0.2, "schedule": "cosine", "weight_decay": 0.01, "pseudocount": 1.0, "apart": False}
    assert report_of("out")["learner"] == {"name": "adam", **chosen}


class Written:
    """Stands in for torch's writer, which needs a package that may be missing."""

    folders: list[tuple[str, int]]
    scalars: list[tuple[str, float, int]]

    def __init__(self, folder: str, purge_step: int) -> None:
        self.folders.append((folder, purge_step))

    def add_scalar(self, name: str, value: float, step: int) -> None:
        self.scalars.append((name, value, step))

    def flush(self) -> None: ...

    def close(self) -> None: ...


def test_tensorboard_gets_the_figures_of_each_epoch(plica: Plica, toy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    Written.folders, Written.scalars = [], []
    writer: Any = types.ModuleType("torch.utils.tensorboard")
    writer.SummaryWriter = Written
    monkeypatch.setitem(sys.modules, "tensorboard", types.ModuleType("tensorboard"))
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", writer)
    Stop(monkeypatch, 1)
    assert plica("train", toy, "--out", "out", *USUAL, "--tensorboard").exit_code == 130
    assert plica("train", "--resume", "out", "--tensorboard").exit_code == 0
    assert Written.folders == [("out/tensorboard", 0)] * 2
    valid = [(value, step) for name, value, step in Written.scalars if name == "log_likelihood/valid"]
    assert [step for _, step in valid] == [0, 1, 0, 1, 2, 3, 4]  # a resumed run writes all of them
    bits = [epoch["valid"] for epoch in report_of("out")["history"]]
    np.testing.assert_allclose([-value / (16 * np.log(2)) for value, _ in valid[2:]], bits, atol=1e-5)
    assert [step for name, _, step in Written.scalars if name == "log_likelihood/train"] == [1, 1, 2, 3, 4]


def test_a_missing_tensorboard_is_named_before_training(
    plica: Plica, toy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    assert_refused(plica("train", toy, "--out", "out", *USUAL, "--tensorboard"), r"pip install '\.\[tensorboard\]'")
    assert not Path("out").exists()


@pytest.mark.full
def test_torch_s_own_writer_writes_files_that_tensorboard_reads(tmp_path: Path) -> None:
    from plica.learn import Epoch

    reading = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    for last in (1, 2):  # interrupted, and resumed
        with TensorBoard(tmp_path) as board:
            for number in range(last + 1):
                board.on_epoch(Epoch(number, -2.0 if number else None, -3.0 + number, best=True, seconds=0.5))
    events = reading.EventAccumulator(str(tmp_path)).Reload()
    assert [(event.step, event.value) for event in events.Scalars("log_likelihood/valid")] == [
        (0, -3.0),
        (1, -2.0),
        (2, -1.0),
    ]


@pytest.mark.full
@pytest.mark.parametrize("seed", range(2))
def test_a_command_that_is_killed_goes_on(tmp_path: Path, plica: Plica, toy: str, seed: int) -> None:
    words = ("--epochs", "30", "--units", "2", "--batch", "4")
    assert plica("train", toy, "--out", "whole", *words).exit_code == 0
    rng = np.random.default_rng(seed)
    command = [sys.executable, "-m", "plica", "train", "--quiet"]
    process = subprocess.Popen([*command, toy, "--out", "out", *words], cwd=tmp_path, text=True)
    while not Path("out/checkpoint").exists():
        assert process.poll() is None
    for _ in range(3):
        try:
            process.wait(timeout=float(rng.uniform(0.0, 1.5)))
        except subprocess.TimeoutExpired:
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
        process = subprocess.Popen([*command, "--resume", "out"], cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    _, said = process.communicate()
    assert process.returncode == 0 or "the run is finished" in said
    assert report_of("out") == report_of("whole")
    assert Path("out/model.plica").read_bytes() == Path("whole/model.plica").read_bytes()
