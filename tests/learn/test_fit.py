import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from plica.backend.torch.compiler import TorchCompiler
from plica.errors import DTypeError, InputError, ShapeError, UnsupportedError
from plica.learn import Adam
from plica.learn.fit import Epoch, FitResult, copy_state, fit, mean_log_likelihood
from plica.learn.scores import to_tensor
from plica.symbolic.circuit import Circuit
from plica.symbolic.layers import CategoricalLayer, SumLayer
from plica.templates.data_modalities import image_data
from tests.harness.circuits import constant, pixels


class Dice(nn.Module):
    """Independent columns of three values: the best logits are the logarithms of the frequencies."""

    def __init__(self, columns: int, dtype: torch.dtype = torch.float32) -> None:
        super().__init__()
        self.logits = nn.Parameter(torch.zeros(columns, 3, dtype=dtype))
        self.calls: list[int] = []

    def forward(self, x: Tensor) -> Tensor:
        self.calls.append(len(x))
        table = self.logits.log_softmax(1)
        return table.gather(1, x.T).T.sum(1)[:, None, None]


class Bell(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.mean = nn.Parameter(torch.zeros(2, dtype=torch.float64))

    def forward(self, x: Tensor) -> Tensor:
        assert x.dtype == self.mean.dtype
        return -((x - self.mean) ** 2).sum(1)[:, None, None]


class Fixed(nn.Module):
    """Gives the value of a schedule by the number of calls so far, whatever the data."""

    def __init__(self, values: list[float]) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(()))
        self.values = values

    def forward(self, x: Tensor) -> Tensor:
        value = self.values.pop(0)
        return (self.weight * 0 + value).expand(len(x), 1, 1)


class Modes(Dice):
    """Notes in which mode it and its part are called, and whether gradients are asked for."""

    def __init__(self) -> None:
        super().__init__(2)
        self.part = nn.Dropout()
        self.seen: list[tuple[bool, bool, bool]] = []

    def forward(self, x: Tensor) -> Tensor:
        self.seen.append((self.training, self.part.training, torch.is_grad_enabled()))
        return super().forward(x)


def rolls(rows: int, columns: int = 2) -> np.ndarray[Any, Any]:
    return np.random.default_rng(0).choice(3, (rows, columns), p=(0.6, 0.3, 0.1))


def run(model: nn.Module, train: Any = None, valid: Any = None, **settings: Any) -> FitResult:
    train = rolls(60) if train is None else train
    valid = train if valid is None else valid
    defaults = {"epochs": 5, "batch": 16, "learner": Adam(0.05)}
    return fit(model, train, valid, **{**defaults, **settings})


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_it_finds_the_maximum(dtype: torch.dtype) -> None:
    x = rolls(400)
    model = Dice(2, dtype)
    result = run(model, x, epochs=150, batch=400, learner=Adam(0.2))
    frequencies = np.stack([(x == value).mean(0) for value in range(3)], axis=1)
    np.testing.assert_allclose(model.logits.detach().softmax(1), frequencies, atol=0.01)
    best = float((frequencies * np.log(frequencies)).sum())
    assert result.history[result.best_epoch].valid == pytest.approx(best, abs=1e-3)
    assert mean_log_likelihood(model, x, 7) == pytest.approx(result.history[result.best_epoch].valid, abs=1e-6)


def test_real_rows_take_the_dtype_of_the_model() -> None:
    x = np.random.default_rng(0).normal(3.0, 1.0, (50, 2)).astype(np.float32)
    model = Bell()
    run(model, x, epochs=200, batch=50, learner=Adam(0.1))
    np.testing.assert_allclose(model.mean.detach(), x.mean(0), atol=0.05)


def test_a_circuit_learns() -> None:
    circuit = pixels(2, 8)
    model = TorchCompiler().compile(circuit)
    one = rolls(300, 1)
    result = run(model, np.repeat(one, 4, axis=1), epochs=60, batch=50, learner=Adam(0.1))
    entropy = -sum(p * math.log(p) for p in np.bincount(one[:, 0]) / 300)
    assert -result.history[-1].valid < entropy + 0.05  # four equal columns carry the entropy of one


def test_history_and_callbacks_agree() -> None:
    seen: list[Epoch] = []
    rows: list[int] = []
    result = run(Dice(2), epochs=3, on_epoch=seen.append, on_batch=rows.append)
    assert tuple(seen) == result.history
    assert [epoch.number for epoch in seen] == [0, 1, 2, 3]
    assert seen[0].train is None
    assert seen[0].best
    assert result.epochs_run == 3
    assert rows == [16, 16, 16, 12] * 3
    assert not result.interrupted


def test_the_same_seed_gives_the_same_run() -> None:
    first, again, other = (run(Dice(2), seed=seed) for seed in (3, 3, 4))
    assert [epoch.valid for epoch in first.history] == [epoch.valid for epoch in again.history]
    assert [epoch.train for epoch in first.history] != [epoch.train for epoch in other.history]


def test_every_row_is_seen_once_in_an_epoch() -> None:
    class Record(Dice):
        seen: Tensor = torch.zeros(0, dtype=torch.int64)

        def forward(self, x: Tensor) -> Tensor:
            if torch.is_grad_enabled():
                self.seen = torch.cat([self.seen, x[:, 0]])
            return super().forward(x % 3)

    model = Record(1)
    x = torch.arange(50)[:, None]
    run(model, x, epochs=1, batch=16)
    assert sorted(model.seen.tolist()) == list(range(50))
    assert model.seen.tolist() != list(range(50))


def test_the_best_state_is_kept_and_put_back() -> None:
    train, valid = np.zeros((40, 1), int), np.array([[0]] * 5 + [[1]] * 4)
    model = Dice(1)
    states: list[Tensor] = []
    result = run(model, train, valid, epochs=30, on_epoch=lambda _: states.append(model.logits.detach().clone()))
    valids = [epoch.valid for epoch in result.history]
    assert result.best_epoch == int(np.argmax(valids))
    assert 0 <= result.best_epoch < 30
    assert [epoch.number for epoch in result.history if epoch.best][-1] == result.best_epoch
    torch.testing.assert_close(model.logits.detach(), states[result.best_epoch], rtol=0, atol=0)
    torch.testing.assert_close(result.best_state["logits"], states[result.best_epoch], rtol=0, atol=0)
    with torch.no_grad():
        model.logits.add_(1)
    assert not torch.equal(result.best_state["logits"], model.logits)


@pytest.mark.parametrize("epoch", [0, 1, 3])
def test_ctrl_c_after_an_epoch_keeps_the_best(epoch: int) -> None:
    def stop(done: Epoch) -> None:
        if done.number == epoch:
            raise KeyboardInterrupt

    model = Dice(2)
    result = run(model, epochs=9, on_epoch=stop)
    assert result.interrupted
    assert result.epochs_run == epoch
    assert result.best_epoch == epoch
    torch.testing.assert_close(model.logits.detach(), result.best_state["logits"], rtol=0, atol=0)


def test_ctrl_c_within_an_epoch_drops_the_unfinished_epoch() -> None:
    model, batches = Dice(2), []

    def stop(rows: int) -> None:
        batches.append(rows)
        if len(batches) == 6:
            raise KeyboardInterrupt

    result = run(model, epochs=9, on_batch=stop)
    assert result.interrupted
    assert result.epochs_run == 1
    assert mean_log_likelihood(model, rolls(60), 60) == pytest.approx(result.history[1].valid, abs=1e-6)


def test_ctrl_c_before_anything_keeps_the_first_weights() -> None:
    class Stopped(Dice):
        def forward(self, x: Tensor) -> Tensor:  # noqa: ARG002
            raise KeyboardInterrupt

    model = Stopped(2)
    before = copy_state(model)
    result = run(model)
    assert result.interrupted
    assert result.history == ()
    assert result.epochs_run == 0
    torch.testing.assert_close(result.best_state, before)


def test_a_loss_that_is_not_finite_is_named() -> None:
    one = np.zeros((4, 1), int)
    values = [-1.0] * 6 + [math.nan, -1.0]  # two batches each: validation, epoch 1, validation, epoch 2
    with pytest.raises(
        InputError,
        match=r"epoch 2, batch 1 of 2: the loss is nan, learned by adam with a rate of 0.0375; try a smaller",
    ):
        run(Fixed(values), one, one, epochs=3, batch=2)
    with pytest.raises(
        InputError, match=r"epoch 1, batch 1 of 1: the loss is inf, learned by adam with a rate of 0.05; try a smaller"
    ):
        run(Fixed([-1.0, -math.inf]), one, one, epochs=3, batch=9)
    with pytest.raises(InputError, match=r"epoch 0: the likelihood of the validation rows is NaN"):
        run(Fixed([math.nan]), one, one)


def test_zero_probability_of_a_validation_row_is_just_bad() -> None:
    one = np.zeros((4, 1), int)
    result = run(Fixed([-math.inf, -1.0, -3.0, -1.0, -math.inf]), one, one, epochs=2, batch=4)
    assert [epoch.valid for epoch in result.history] == [-math.inf, -3.0, -math.inf]
    assert result.best_epoch == 1


def test_models_that_cannot_be_trained_are_refused() -> None:
    frozen = Dice(2)
    frozen.logits.requires_grad_(False)
    with pytest.raises(InputError, match="no learnable parameters"):
        run(frozen)

    class Wide(Dice):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x).expand(-1, 1, 2)

    with pytest.raises(InputError, match=r"maps 60 rows to shape \(60, 1, 2\), expected \(60, 1, 1\): .*one output"):
        run(Wide(2), batch=60)


def test_circuits_whose_results_are_no_log_likelihoods_are_refused() -> None:
    rows = rolls(60, 4)
    for semiring in ("sum-product", "max-product", "max-sum", "min-plus"):
        model = TorchCompiler(semiring).compile(pixels(2, 3))
        with pytest.raises(UnsupportedError, match=f"training needs log-likelihoods, .* semiring '{semiring}'"):
            run_alone(rows, model)


def test_circuits_of_signed_weights_learn_the_logarithm_of_their_sizes() -> None:
    rows, scores = rolls(60, 4), {}
    for semiring in ("lse-sum", "signed-lse-sum", "complex-lse-sum"):
        model = TorchCompiler(semiring).compile(pixels(2, 3)).double()
        model.reset_parameters(seed=0)
        scores[semiring] = [epoch.valid for epoch in run_alone(rows, model, valid=rolls(20, 4)).history]
    np.testing.assert_allclose(scores["signed-lse-sum"], scores["lse-sum"], atol=1e-9)
    np.testing.assert_allclose(scores["complex-lse-sum"], scores["lse-sum"], atol=1e-9)
    coin = CategoricalLayer([0], 1, num_categories=2)
    opposite = SumLayer(1, 1, weight=constant([[-1.0]]))
    negative = TorchCompiler("signed-lse-sum").compile(Circuit([coin, opposite], {opposite: [coin]}, [opposite]))
    with pytest.raises(InputError, match="the likelihood of the validation rows is NaN"):
        run_alone(np.array([[0], [1]]), negative)


def test_parameters_that_are_frozen_stay() -> None:
    class Two(Dice):
        def __init__(self) -> None:
            super().__init__(2)
            self.fixed = nn.Parameter(torch.ones(3), requires_grad=False)

    model = Two()
    run(model)
    assert model.fixed.tolist() == [1.0, 1.0, 1.0]


@pytest.mark.parametrize("batch_size", [1, 7, 60, 1000])
def test_the_mean_does_not_depend_on_the_batches(batch_size: int) -> None:
    model, x = Dice(2), rolls(60)
    with torch.no_grad():
        model.logits.normal_()
        expected = float(model(torch.from_numpy(x)).double().mean())
    assert mean_log_likelihood(model, x, batch_size) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("mode", [True, False])
def test_validation_is_in_eval_mode_and_leaves_every_module_in_its_own(mode: bool) -> None:
    model = Modes().train(mode)
    model.part.train(not mode)
    run(model, epochs=1, batch=60)
    own, valid = (mode, not mode, True), (False, False, False)
    assert model.seen == [valid, own, valid]
    assert (model.training, model.part.training) == (mode, not mode)


def test_an_error_of_validation_leaves_the_mode() -> None:
    model = Modes()
    with pytest.raises(RuntimeError):
        mean_log_likelihood(model, np.zeros((4, 3), "int64"), 2)
    assert model.training
    assert model.part.training


def test_a_circuit_folds_for_validation_and_gives_back_what_it_kept_with_the_next_step() -> None:
    settings: dict[str, Any] = {"input_layer": "categorical", "num_values": 3, "sum_product_layer": "cp"}
    circuit = TorchCompiler().compile(
        image_data((1, 1, 2), "quad-tree-2", num_input_units=2, num_sum_units=2, **settings)
    )
    kept = []
    run(
        circuit,
        epochs=2,
        on_epoch=lambda _: kept.append(circuit.constants.num_bytes > 0),
        on_batch=lambda _: kept.append(circuit.constants.num_bytes > 0),
    )
    assert kept == [True, *[False] * 4, True, *[False] * 4, True]
    assert circuit.training


def test_without_validation_rows_the_training_rows_choose() -> None:
    x = rolls(60)
    result = run_alone(x)
    assert [epoch.valid for epoch in result.history] == [epoch.valid for epoch in run(Dice(2), x, x).history]


def run_alone(rows: Any, model: nn.Module | None = None, **settings: Any) -> FitResult:
    return fit(
        Dice(2) if model is None else model, rows, **{"epochs": 5, "batch": 16, "learner": Adam(0.05), **settings}
    )


def test_a_part_of_the_rows_is_held_out() -> None:
    class Record(Dice):
        learned: set[int]
        scored: set[int]

        def forward(self, x: Tensor) -> Tensor:
            (self.learned if torch.is_grad_enabled() else self.scored).update(x[:, 0].tolist())
            return super().forward(x % 3)

    parts = []
    for seed in (0, 0, 1):
        model = Record(1)
        model.learned, model.scored = set(), set()
        run_alone(torch.arange(50)[:, None], model, valid=0.3, epochs=1, seed=seed)
        assert (len(model.learned), len(model.scored)) == (35, 15)
        assert model.learned | model.scored == set(range(50))
        parts.append(model.scored)
    assert parts[0] == parts[1] != parts[2]
    assert parts[0] != set(range(15))


def test_patience_counts_epochs_without_a_gain() -> None:
    one = np.zeros((4, 1), int)
    values = [-5.0, -4.0, -4.25, -3.75, -3.75, -4.0, -3.0]  # validation after each epoch; the first is before training

    def scores(**settings: Any) -> list[float]:
        calls = [value for pair in zip(values, [-1.0] * 7, strict=True) for value in pair]
        result = run_alone(one, Fixed(calls), valid=one, epochs=6, batch=4, **settings)
        assert result.stopped_early == (len(result.history) < 7)
        return [epoch.valid for epoch in result.history]

    assert scores() == values
    assert scores(patience=3) == values
    assert scores(patience=2) == values[:6]
    assert scores(patience=1) == values[:3]
    assert scores(patience=2, min_delta=0.5) == values[:4]
    assert scores(patience=6, min_delta=10.0) == values


def test_numbers_that_are_not_finite_leave_the_best_state(tmp_path: Path) -> None:
    class Breaks(Dice):
        def forward(self, x: Tensor) -> Tensor:
            value = super().forward(x)
            return value * math.nan if len(self.calls) > 20 and torch.is_grad_enabled() else value

    model, seen = Breaks(2), []
    with pytest.raises(InputError, match=r"epoch 3, batch \d of 4: the loss is nan, learned by adam with a rate of"):
        run_alone(rolls(60), model, epochs=9, checkpoint=tmp_path / "c", on_epoch=lambda e: seen.append(e.valid))
    assert model.logits.isfinite().all()
    assert mean_log_likelihood(model, rolls(60), 60) == pytest.approx(max(seen), abs=1e-6)


def test_an_error_of_a_callback_leaves_the_best_state() -> None:
    def fails(epoch: Epoch) -> None:
        if epoch.number == 2:
            raise LookupError

    model, seen = Dice(2), []
    with pytest.raises(LookupError):
        run_alone(rolls(60), model, on_epoch=fails, on_batch=lambda _: seen.append(model.logits.clone()))
    torch.testing.assert_close(model.logits, seen[7], rtol=0, atol=0)


COIN = CategoricalLayer([0], 1, num_categories=2)
WRONG: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "no rows": ({"rows": np.zeros((0, 2), int)}, InputError, "rows has no rows"),
    "no validation rows": ({"valid": np.zeros((0, 2), int)}, InputError, "valid has no rows"),
    "one axis": ({"rows": np.zeros(4, int)}, InputError, r"rows must be rows \(N, D\), found shape \(4,\)"),
    "another width": ({"valid": np.zeros((4, 3), int)}, InputError, r"valid has rows of shape \(3,\), expected \(2,\)"),
    "all held out": ({"valid": 1.0}, InputError, "valid=1.0 holds out 0 of 60 rows"),
    "none held out": ({"valid": 0.001}, InputError, "valid=0.001 holds out 0 of 60 rows"),
    "a part of one row": ({"rows": np.zeros((1, 2), int), "valid": 0.5}, InputError, "holds out 0 of 1 rows"),
    "a name": ({"learner": "adam"}, DTypeError, r"learner must be one of .*Adam\(\).*, found 'adam'"),
    "no epochs": ({"epochs": -1}, ShapeError, "epochs must be at least 0, found -1"),
    "no batch": ({"batch": 0}, ShapeError, "batch must be at least 1, found 0"),
    "no patience": ({"patience": 0}, ShapeError, "patience must be at least 1, found 0"),
    "a negative gain": ({"min_delta": -1}, InputError, "min_delta must be finite and 0 or more"),
    "text": ({"rows": np.array([["1", "2"]])}, DTypeError, "rows must be numbers, as an array or a tensor, found"),
    "objects": ({"rows": np.array([[1, None]])}, DTypeError, "rows must be numbers, as an array or a tensor, found"),
    "an integer as a part": ({"valid": 1}, InputError, "valid must be rows .*, or a part of the rows such as 0.2"),
    "not compiled": ({"model": Circuit([COIN], {}, [COIN])}, DTypeError, "found Circuit.*; compile a circuit first"),
    "no function": ({"on_epoch": 3}, DTypeError, "on_epoch must be a function, found 3 of type int"),
    "a negative seed": ({"seed": -1}, InputError, "seed must not be negative"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_arguments_are_refused_before_training(case: str) -> None:
    settings, error, message = WRONG[case]
    model = Dice(2)
    with pytest.raises(error, match=message):
        run_alone(**{"rows": rolls(60), "model": model, **settings})
    assert model.calls == []


def test_rows_of_other_layouts_and_libraries_are_the_same_rows() -> None:
    rows = rolls(60)
    expected = run_alone(rows, valid=0.25).history[-1].valid
    reversed_twice = rows[::-1].copy()[::-1]  # with a negative stride
    for same in (reversed_twice, rows.tolist(), np.asfortranarray(rows)):
        assert run_alone(same, valid=np.float32(0.25)).history[-1].valid == expected
    reals = [rolls(60).astype(kind) for kind in (np.float16, np.longdouble)]
    assert [to_tensor(real, torch.empty(0)).dtype for real in reals] == [torch.float32] * 2


@pytest.mark.parametrize(
    ("rows", "batch", "error", "message"),
    [
        (np.zeros((0, 2)), 3, InputError, r"expected rows \(N, D\), at least one, found shape \(0, 2\)"),
        (np.zeros((1, 2), int), 0, ShapeError, "batch must be at least 1, found 0"),
    ],
)
def test_a_mean_of_no_rows_is_refused(rows: Any, batch: int, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        mean_log_likelihood(Dice(2), rows, batch)


def test_one_row_and_no_epoch() -> None:
    result = run_alone(np.array([[1, 2]]), epochs=1)
    assert result.epochs_run == 1
    model = Dice(2)
    result = run_alone(rolls(60), model, epochs=0)
    assert (result.epochs_run, result.best_epoch) == (0, 0)
    torch.testing.assert_close(model.logits.detach(), torch.zeros(2, 3))


def test_a_result_prints_short() -> None:
    result = run_alone(rolls(60), epochs=2, valid=0.5)
    valid = f"{result.history[result.best_epoch].valid:.4f}"
    assert repr(result) == f"FitResult(best epoch {result.best_epoch} of 2, valid {valid})"
    html = result._repr_html_()
    assert html.count("<tr>") == 4
    assert valid in html

    def stop(_: Epoch) -> None:
        raise KeyboardInterrupt

    assert repr(run_alone(rolls(60), on_epoch=stop)).endswith(", interrupted)")
    assert repr(run_alone(rolls(60), patience=1, min_delta=9.0)).endswith(", stopped early)")


def test_progress_is_shown_where_it_is_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    seen: list[Epoch] = []
    run_alone(rolls(60), epochs=1, on_epoch=seen.append)
    assert capsys.readouterr().err == ""
    run_alone(rolls(60), epochs=1, progress=True, on_epoch=seen.append)
    first, last = capsys.readouterr().err.splitlines()
    assert first == f"epoch 0/1: valid {seen[2].valid:.3f}, best {seen[2].valid:.3f} nats"
    assert last.startswith(f"epoch 1/1: train {seen[3].train:.3f}, valid {seen[3].valid:.3f}, best ")
