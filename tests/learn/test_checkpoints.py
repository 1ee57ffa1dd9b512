"""A resumed run ends like one without a break, to the bit; wrong and damaged checkpoints are refused."""

import errno
import json
import os
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from plica.backend.torch.compiler import TorchCompiler
from plica.errors import DTypeError, FileFormatError, InputError, ShapeError, WriteError
from plica.learn import Adam, Checkpoint, Epoch, FitResult, fit
from plica.learn.checkpoints import describe_model, read_notes
from plica.symbolic.circuit import Circuit
from plica.symbolic.initializers import ConstantTensorInitializer
from plica.symbolic.layers import BernoulliLayer, BinomialLayer, SumLayer
from plica.symbolic.parameters import (
    ClampParameter,
    ConstantParameter,
    Parameter,
    SoftplusParameter,
    TensorParameter,
)
from tests.harness.circuits import pixels

ROOT = Path(__file__).parents[2]
ROWS = np.random.default_rng(0).integers(0, 3, (50, 2))


class Noisy(nn.Module):
    """Two columns of three values; draws from torch's global generator in training, as dropout does."""

    def __init__(self, dtype: torch.dtype = torch.float32) -> None:
        super().__init__()
        self.logits = nn.Parameter(torch.zeros(2, 3, dtype=dtype))
        self.drop = nn.Dropout(0.3)

    def forward(self, x: Tensor) -> Tensor:
        table = self.drop(self.logits).log_softmax(1)
        return table.gather(1, x.T).T.sum(1)[:, None, None]


def run(path: Path | None, model: nn.Module | None = None, rows: Any = ROWS, **settings: Any) -> FitResult:
    torch.manual_seed(7)
    usual: dict[str, Any] = {"epochs": 6, "batch": 8, "seed": 3, "valid": 0.2, "checkpoint": path}
    return fit(Noisy() if model is None else model, rows, **{**usual, **settings})


def assert_same(result: FitResult, expected: FitResult) -> None:
    """The same history without seconds, and the same best state, to the bit."""
    figures = [[(e.number, e.train, e.valid, e.best, e.rate) for e in r.history] for r in (result, expected)]
    assert figures[0] == figures[1]
    assert result.best_epoch == expected.best_epoch
    assert result.stopped_early == expected.stopped_early
    assert result.best_state.keys() == expected.best_state.keys()
    for name, value in result.best_state.items():
        assert torch.equal(value, expected.best_state[name]), name


class Killed(BaseException):
    """Ends a run as a crash does: `fit` does not handle it."""


def killed_after(batches: int) -> Any:
    seen = []

    def on_batch(_: int) -> None:
        seen.append(1)
        if len(seen) == batches:
            raise Killed

    return on_batch


LEARNERS = {
    "cosine": Adam(0.3),
    "one-cycle": Adam(0.3, schedule="one-cycle"),
    "linear": Adam(0.3, schedule="linear", weight_decay=0.1),
    "constant": Adam(0.3, schedule="constant"),
    "own": Adam(0.3, schedule=lambda optimizer, _: torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)),
}


@pytest.mark.one_in(3)
@pytest.mark.parametrize("seconds", [1e9, 0.0], ids=["each epoch", "each batch"])
@pytest.mark.parametrize("learner", LEARNERS.values(), ids=LEARNERS)
def test_a_run_that_dies_again_and_again_ends_like_one_without_a_break(
    tmp_path: Path, learner: Adam, seconds: float
) -> None:
    expected = run(None, learner=learner)
    checkpoint = Checkpoint(tmp_path / "a" / "c", seconds=seconds)
    resumed_at = []
    for batches in (2, 9, 14):  # five batches an epoch: in epoch 1, at the end of one, in the middle
        with pytest.raises(Killed):
            run(checkpoint, learner=learner, resume=True, on_batch=killed_after(batches))  # type: ignore[arg-type]
    result = run(checkpoint, learner=learner, resume=True, on_epoch=lambda e: resumed_at.append(e.number))  # type: ignore[arg-type]
    assert_same(result, expected)
    assert resumed_at == list(range(7))
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["c"]


def test_no_more_than_one_epoch_is_learned_again(tmp_path: Path) -> None:
    path = tmp_path / "c"
    seen: list[int] = []
    with pytest.raises(Killed):
        run(path, on_batch=killed_after(14))  # in the third epoch
    run(path, resume=True, on_batch=seen.append)
    assert sum(seen) == 4 * 40
    with pytest.raises(Killed):
        run(Checkpoint(path, seconds=0.0), on_batch=killed_after(14))  # type: ignore[arg-type]
    seen.clear()
    run(path, resume=True, on_batch=seen.append)
    assert sum(seen) == 6 * 40 - 14 * 8


def test_a_circuit_and_patience_go_on(tmp_path: Path) -> None:
    rows = np.random.default_rng(1).integers(0, 3, (40, 4))

    def learned(path: Path | None, **settings: Any) -> FitResult:
        torch.manual_seed(0)
        model = TorchCompiler().compile(pixels(2, 3))
        return run(path, model, rows, patience=2, epochs=40, learner=Adam(0.5), **settings)

    expected = learned(None)
    assert expected.stopped_early
    assert 2 <= expected.epochs_run < 40
    with pytest.raises(Killed):
        learned(tmp_path / "c", on_batch=killed_after(7))
    assert_same(learned(tmp_path / "c", resume=True), expected)
    again: list[int] = []
    assert_same(learned(tmp_path / "c", resume=True, on_batch=again.append), expected)
    assert again == []  # the run was at its end


def test_ctrl_c_keeps_a_checkpoint(tmp_path: Path) -> None:
    expected = run(None)

    def stop(epoch: Epoch) -> None:
        if epoch.number == 2:
            raise KeyboardInterrupt

    stopped = run(tmp_path / "c", on_epoch=stop)
    assert stopped.interrupted
    assert stopped.epochs_run == 2
    assert_same(run(tmp_path / "c", resume=True), expected)


def test_resume_without_a_checkpoint_starts_and_without_resume_it_starts_anew(tmp_path: Path) -> None:
    first = run(tmp_path / "c", resume=True)
    assert_same(first, run(None))
    assert_same(run(tmp_path / "c", seed=4), run(None, seed=4))
    with pytest.raises(InputError, match="resume needs the checkpoint"):
        run(None, resume=True)


class Other(Noisy):
    """Another kind of model with the same tensors."""


OTHERS: dict[str, tuple[str, dict[str, Any]]] = {
    "model": ("its model is Noisy of 6 parameters .*and here it is Other", {"model": Other()}),
    "dtype": (r"its dtype is torch.float32, and here it is torch.float64", {"model": Noisy(torch.float64)}),
    "data": ("its data is 40 x 2 .*, its validation data is 10 x 2", {"rows": ROWS[::-1].copy()}),
    "validation": ("run: its validation data is 10 x 2", {"rows": ROWS[10:], "valid": ROWS[:9]}),
    "learner": ("its learner is .*'rate': 0.1, .*'rate': 0.2", {"learner": Adam(0.2)}),
    "seed": ("its seed is 3, and here it is 4", {"seed": 4, "valid": ROWS[40:], "rows": ROWS[:40]}),
    "epochs": ("its epochs is 6, and here it is 7", {"epochs": 7}),
    "batch": ("its batch is 8, and here it is 9", {"batch": 9}),
    "patience": ("its patience is None, and here it is 3", {"patience": 3}),
}


@pytest.mark.parametrize("case", OTHERS)
def test_the_checkpoint_of_another_run_is_refused_with_what_differs(tmp_path: Path, case: str) -> None:
    message, changed = OTHERS[case]
    first = {name: value for name, value in changed.items() if name in ("rows", "valid") and case != "data"}
    first |= {"valid": ROWS[:10]} if case == "validation" else {}
    run(tmp_path / "c", **first)
    before = (tmp_path / "c").read_bytes()
    model = changed.get("model", Noisy())
    states = {name: value.clone() for name, value in model.state_dict().items()}
    with pytest.raises(InputError, match=message) as caught:
        run(tmp_path / "c", resume=True, **{"model": model, **changed})
    assert "leave resume out to start anew" in str(caught.value)
    torch.testing.assert_close(dict(model.state_dict()), states, rtol=0, atol=0)
    assert (tmp_path / "c").read_bytes() == before


def test_circuits_of_the_same_tensors_and_other_edges_are_told_apart(tmp_path: Path) -> None:
    from plica.symbolic.layers import CategoricalLayer
    from plica.templates.region_graph import RandomBinaryTree

    def circuit(seed: int) -> Any:
        graph = RandomBinaryTree(4, seed=seed)
        described = graph.build_circuit(
            input_factory=lambda scope, units: CategoricalLayer(scope, units, num_categories=3),
            sum_product="cp",
            num_input_units=2,
            num_sum_units=2,
        )
        return TorchCompiler().compile(described)

    rows = np.random.default_rng(1).integers(0, 3, (30, 4))
    first, *others = (circuit(seed) for seed in range(5))
    fit(first, rows, epochs=1, checkpoint=tmp_path / "c")
    differing = 0
    for other in others:
        same = [str(a) for a in first.symbolic.layers] == [str(b) for b in other.symbolic.layers]
        if not same:
            differing += 1
            with pytest.raises(InputError, match="its model is TorchCircuit of"):
                fit(other, rows, epochs=1, checkpoint=tmp_path / "c", resume=True)
    assert differing


def mixture_of_coins(
    weight: Any = None, *, coins: Any = None, fixed: bool = False, semiring: str = "lse-sum"
) -> nn.Module:
    coins = BernoulliLayer([0], 2) if coins is None else coins
    mix = SumLayer(2, 1, weight=weight)
    model = TorchCompiler(semiring).compile(Circuit([coins, mix], {mix: [coins]}, [mix]))
    next(model.parameters()).requires_grad_(not fixed)
    return model


def weight_of(operation: Any, *, shares: Any = (0.25, 0.75)) -> Any:
    leaf = TensorParameter(1, 2, initializer=ConstantTensorInitializer(np.array([shares])))
    return leaf if operation is None else Parameter.from_unary(operation, leaf)


SAME_TENSORS = {
    "linear": lambda: mixture_of_coins(weight_of(None)),
    "clamped": lambda: mixture_of_coins(weight_of(ClampParameter((1, 2), vmin=1e-6))),
    "clamped otherwise": lambda: mixture_of_coins(weight_of(ClampParameter((1, 2), vmin=1e-3))),
    "softplus": lambda: mixture_of_coins(weight_of(SoftplusParameter((1, 2)))),
    "fixed": lambda: mixture_of_coins(fixed=True),
    "binomial": lambda: mixture_of_coins(coins=BinomialLayer([0], 2, total_count=4)),
    "binomial of another count": lambda: mixture_of_coins(coins=BinomialLayer([0], 2, total_count=5)),
    "semiring": lambda: mixture_of_coins(semiring="sum-product"),
    "constant": lambda: mixture_of_coins(ConstantParameter(1, 2, value=np.array([[0.25, 0.75]]))),
    "another constant": lambda: mixture_of_coins(ConstantParameter(1, 2, value=np.array([[0.5, 0.5]]))),
}


def test_circuits_whose_tensors_mean_something_else_are_told_apart(tmp_path: Path) -> None:
    """The tensors have the same names and shapes: those of a softmax are no weights, and the other way round."""
    flips = np.array([[0], [1], [1]])
    fit(mixture_of_coins(), flips, epochs=1, checkpoint=tmp_path / "c")
    fit(mixture_of_coins(), flips, epochs=1, checkpoint=tmp_path / "c", resume=True)
    descriptions = {describe_model(make()) for make in (mixture_of_coins, *SAME_TENSORS.values())}
    assert len(descriptions) == 1 + len(SAME_TENSORS)
    for make in SAME_TENSORS.values():
        with pytest.raises(InputError, match="its model is TorchCircuit of"):
            fit(make(), flips, epochs=1, checkpoint=tmp_path / "c", resume=True)


def test_a_damaged_file_is_refused_wherever_the_damage_is(tmp_path: Path) -> None:
    path = tmp_path / "c"
    run(path, epochs=1)
    whole = path.read_bytes()
    rng = np.random.default_rng(0)
    damaged = [b"", b"text", whole[: len(whole) // 2], whole[:-1], whole[30:]]
    for place in rng.integers(0, len(whole), 60):
        flipped = bytearray(whole)
        flipped[place] ^= 1 << int(rng.integers(8))
        damaged.append(bytes(flipped))
    model = Noisy()
    refused = 0
    for contents in damaged:
        path.write_bytes(contents)
        try:
            result = run(path, model, epochs=1, resume=True)
        except (FileFormatError, InputError) as error:
            assert str(path) in str(error)  # noqa: PT017 - a bit of the padding changes nothing
            assert torch.equal(model.logits, torch.zeros(2, 3))
            refused += 1
        else:
            path.write_bytes(whole)
            assert_same(result, run(path, epochs=1, resume=True))
            model = Noisy()
    assert refused > 20


def test_other_files_and_forged_contents_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "c"
    torch.save({"weights": torch.zeros(2)}, path)
    with pytest.raises(FileFormatError, match="is no checkpoint of a training run"):
        run(path, resume=True)
    run(path, epochs=1)
    contents = torch.load(path, weights_only=True)
    torch.save({**contents, "version": 2}, path)
    with pytest.raises(FileFormatError, match="is a checkpoint of version 2, expected 1"):
        run(path, epochs=1, resume=True)
    state = contents["state"]
    for name, value in (("history", []), ("training", {}), ("model", {}), ("steps", 3), ("random", {}), ("best", 1)):
        torch.save({**contents, "state": {**state, name: value}}, path)
        model = Noisy()
        with pytest.raises(FileFormatError, match="its contents do not fit the run that it names"):
            run(path, model, epochs=1, resume=True)
        assert torch.equal(model.logits, torch.zeros(2, 3))


class Harmful:
    def __reduce__(self) -> Any:
        return (os.mkdir, ("harm",))


def test_a_file_runs_no_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    torch.save({"format": Harmful()}, tmp_path / "c")
    with pytest.raises(FileFormatError, match="damaged"):
        run(tmp_path / "c", resume=True)
    assert not (tmp_path / "harm").exists()


def test_a_failed_write_keeps_the_former_file_and_training_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, save = tmp_path / "c", torch.save
    expected, writes = run(None), []

    def full_after_three(contents: Any, file: Any) -> None:
        writes.append(1)
        if len(writes) > 3:
            file.write(b"half")
            raise RuntimeError("PytorchStreamWriter failed writing file: No space left on device")
        save(contents, file)

    monkeypatch.setattr(torch, "save", full_after_three)
    with pytest.warns(UserWarning, match="a checkpoint was not written, the former one stays: .*no space left"):
        result = run(path)
    assert_same(result, expected)
    monkeypatch.setattr(torch, "save", save)
    assert [file.name for file in tmp_path.iterdir()] == ["c"]
    seen: list[int] = []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert_same(run(path, resume=True, on_batch=seen.append), expected)
    assert sum(seen) == 4 * 40  # the former one is of epoch 2
    monkeypatch.setattr(torch, "save", full_after_three)
    with pytest.raises(WriteError, match="no space left on device"):
        run(tmp_path / "d")  # the first one: nothing is lost yet


def test_a_path_where_no_file_can_be_is_refused_before_training(tmp_path: Path) -> None:
    with pytest.raises(FileFormatError, match="is a folder"):
        run(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(FileFormatError, match="file: cannot be a folder"):
        run(tmp_path / "file" / "c")
    with pytest.raises(DTypeError, match="expected the path of a file, found 3 of type int"):
        run(3)  # type: ignore[arg-type]


NUMPY_NUMBERS = {
    "rate": Adam(rate=np.float64(0.3)),
    "narrow rate": Adam(rate=np.float32(0.3)),  # type: ignore[arg-type]
    "schedule": Adam(
        schedule=lambda optimizer, _: torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: np.exp(-step / 100))
    ),
}


@pytest.mark.parametrize("learner", NUMPY_NUMBERS.values(), ids=NUMPY_NUMBERS)
def test_numbers_of_numpy_can_be_read_back(tmp_path: Path, learner: Adam) -> None:
    notes = {"folds": [np.int64(3)], "held out": np.float32(0.5)}
    with pytest.raises(Killed):
        run(Checkpoint(tmp_path / "c", notes=notes), learner=learner, on_batch=killed_after(9))  # type: ignore[arg-type]
    assert read_notes(tmp_path / "c") == {"folds": [3], "held out": 0.5}
    assert_same(run(tmp_path / "c", learner=learner, resume=True), run(None, learner=learner))


def test_what_could_not_be_read_back_is_refused_before_training(tmp_path: Path) -> None:
    with pytest.raises(DTypeError, match=r"holds tensors and plain values, and here are objects of .*Path"):
        run(Checkpoint(tmp_path / "c", notes={"data": tmp_path}))  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []


def test_files_of_a_write_that_was_killed_are_removed(tmp_path: Path) -> None:
    (tmp_path / ".c.abcd1234").write_bytes(b"half")
    (tmp_path / ".config").write_bytes(b"mine")
    run(tmp_path / "c", epochs=0)
    assert sorted(path.name for path in tmp_path.iterdir()) == [".config", "c"]


def test_notes_are_kept(tmp_path: Path) -> None:
    run(Checkpoint(tmp_path / "c", notes={"columns": ["a", "b"]}))  # type: ignore[arg-type]
    assert read_notes(tmp_path / "c") == {"columns": ["a", "b"]}


def test_the_best_state_shares_no_memory_with_the_model_after_a_resume(tmp_path: Path) -> None:
    run(tmp_path / "c")
    model = Noisy()
    result = run(tmp_path / "c", model, resume=True)
    with torch.no_grad():
        model.logits.add_(1)
    assert not torch.equal(result.best_state["logits"], model.logits)


@pytest.mark.full
def test_a_run_that_is_killed_at_random_moments_loses_at_most_one_epoch_and_no_bit(tmp_path: Path) -> None:
    kills = 50
    done = subprocess.run(
        [sys.executable, "-m", "tests.harness.killed_runs", str(kills)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    killed, lost, same, left = json.loads(done.stdout)
    assert killed >= 2 * kills // 3
    assert lost <= 1
    assert same
    assert left == ["checkpoint", "log", "result.json"]


def test_the_last_ones_are_kept_and_a_failed_write_changes_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoint = Checkpoint(tmp_path / "checkpoint", keep=3)

    def kept() -> list[int]:
        files = sorted(tmp_path.iterdir())
        return [Checkpoint(file).read({})["step"] for file in files]

    for step in range(5):
        checkpoint.write({}, {"step": step})
        assert kept() == list(range(step, max(step - 3, -1), -1))
    with monkeypatch.context() as full:
        full.setattr(os, "fsync", _full_disk)
        with pytest.raises(WriteError, match="no space left on device"):
            checkpoint.write({}, {"step": 5})
    assert kept() == [4, 3, 2]
    monkeypatch.setattr(os, "link", _full_disk)  # a file system without links
    Checkpoint(tmp_path / "checkpoint", keep=2).write({}, {"step": 6})
    assert Checkpoint(tmp_path / "checkpoint.1").read({})["step"] == 4
    with pytest.raises(ShapeError, match="keep"):
        Checkpoint(tmp_path / "checkpoint", keep=0)


def _full_disk(*_: object) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")
