"""The examples run as scripts, and compute what plain numpy computes."""

import importlib
import importlib.util
import itertools
import runpy
import sys
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch

import plica
import plica.learn
from plica.queries import log_likelihood
from plica.templates.data_modalities import image_data
from plica.templates.pgms import hmm

EXAMPLES = Path(__file__).parents[1] / "examples"
LONG = (
    "constrained_generation",
    "digit_sums",
    "squares_against_mixtures",
)  # which have tests of their own that train for less
OF_THE_GALLERY = (  # which the build of the site runs, too
    "anomalies",
    "conditional_samples",
    "constrained_text",
    "native_three_ways",
)
ON_A_CLUSTER = "on_spark"  # the command `plica`, which tests of the command line run
NAMES = sorted(path.stem for path in EXAMPLES.glob("*.py") if path.stem not in {*LONG, *OF_THE_GALLERY, ON_A_CLUSTER})


def load(name: str) -> ModuleType:
    """The module of an example, which is no package."""
    found = importlib.util.spec_from_file_location(f"examples_{name}", EXAMPLES / f"{name}.py")
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


LAST_LINES = {
    "anomalies": "cells: 178 x 13",
    "conditional_samples": "pixels drawn: 1792",
    "constrained_text": "draws that do not match: 0",
    "native_three_ways": "the three agree: True",
    "constrained_generation": "the forward procedure in numpy finds the same probability: True",
    "digit_sums": "answers of the semantic layer that break the constraint: 0",
    "gaussian_mixture": "components: 24",
    "mixed_imputation": "cells: 178 x 14",
    "hmm": "the forward procedure in numpy finds the same: True",
    "neural_parameters": "leaves that the network gives: mean 0, spread 0, mean 1, spread 1, weight",
    "squares_against_mixtures": "numbers of each model: 294",
    "serving": "calls of [1, 7, 250] rows: 4 folds; after the swap 4 more",
}


TRAINED = ("gaussian_mixture", "hidden_trees", "imputation", "mixed_imputation")


def stop_early(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let what learns from data end after two rounds."""
    importlib.import_module("sklearn.experimental.enable_iterative_imputer")
    impute: Any = importlib.import_module("sklearn.impute")
    fit = plica.learn.fit
    monkeypatch.setattr(plica.learn, "fit", lambda *data, **how: fit(*data, **{**how, "epochs": 2}))
    imputer = partial(impute.IterativeImputer, random_state=0)
    monkeypatch.setattr(impute, "IterativeImputer", lambda **_: imputer(max_iter=2))


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("name", "whole"),
    [
        *(pytest.param(name, False, marks=pytest.mark.full if place % 2 else []) for place, name in enumerate(NAMES)),
        *(pytest.param(name, True, marks=pytest.mark.full) for name in (*TRAINED, *LONG, *OF_THE_GALLERY)),
    ],
)
def test_an_example_runs_and_compiles_once(
    name: str, whole: bool, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    if not whole:
        stop_early(monkeypatch)
    monkeypatch.setattr("sys.argv", [f"{name}.py"])
    runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == LAST_LINES.get(name, "compilations: 1")
    assert 3 < len(lines) < 20


# Viterbi


@pytest.fixture(scope="module")
def viterbi() -> ModuleType:
    return load("viterbi")


def joint(model: list[np.ndarray], states: tuple[int, ...], symbols: np.ndarray) -> float:
    """The log-probability of states and symbols together."""
    start, transition, emission = model
    moves = sum(transition[one, other] for one, other in itertools.pairwise(states))
    return (
        start[states[0]] + moves + sum(emission[state, symbol] for state, symbol in zip(states, symbols, strict=True))
    )


def decode(model: list[np.ndarray], symbols: np.ndarray) -> tuple[list[int], float]:
    """The most likely states of one sequence, by dynamic programming in plain numpy."""
    start, transition, emission = model
    score, pointers = start + emission[:, symbols[0]], []
    for symbol in symbols[1:]:
        pointers.append((score[:, None] + transition).argmax(0))
        score = (score[:, None] + transition).max(0) + emission[:, symbol]
    states = [int(score.argmax())]
    for pointer in reversed(pointers):
        states.insert(0, int(pointer[states[0]]))
    return states, score.max()


@pytest.mark.parametrize(("steps", "batch", "num_states"), [(1, 1, 2), (4, 3, 2), (5, 2, 3)])
def test_viterbi_finds_the_best_of_all_paths(viterbi: ModuleType, steps: int, batch: int, num_states: int) -> None:
    generator = np.random.default_rng(steps)
    model = viterbi.random_model(num_states, 3, seed=batch)
    seen, length = generator.integers(3, size=(steps, batch)), generator.integers(1, steps + 1, size=batch)
    path, score = viterbi.viterbi(*model, seen, length)
    for column, count in enumerate(length):
        symbols = seen[:count, column]
        paths = itertools.product(range(num_states), repeat=int(count))
        best = max(paths, key=lambda states: joint(model, states, symbols))
        assert path[:, column].tolist() == [*best, *[-1] * (steps - count)]
        assert score[column] == pytest.approx(joint(model, best, symbols), abs=1e-10)


def test_viterbi_of_any_size_is_dynamic_programming(viterbi: ModuleType) -> None:
    generator = np.random.default_rng(0)
    for steps, batch, num_states, num_symbols in ((40, 3, 4, 5), (7, 1, 6, 2), (90, 0, 2, 2), (60, 5, 1, 3)):
        model = viterbi.random_model(num_states, num_symbols, seed=steps)
        seen = generator.integers(num_symbols, size=(steps, batch))
        length = generator.integers(1, steps + 1, size=batch)
        path, score = viterbi.viterbi(*model, seen, length)
        assert path.shape == (steps, batch)
        for column, count in enumerate(length):
            states, best = decode(model, seen[:count, column])
            assert path[:count, column].tolist() == states
            assert (path[count:, column] == -1).all()
            assert score[column] == pytest.approx(best, abs=1e-10)
    assert viterbi.viterbi.num_compilations == 1


def test_viterbi_does_not_look_behind_the_end(viterbi: ModuleType) -> None:
    model, seen, length = viterbi.random_model(3, 4, seed=0), np.ones((6, 2), dtype=np.int64), np.array([2, 6])
    seen[2:, 0] = 1000
    path, _ = viterbi.viterbi(*model, seen, length)
    assert path[:, 0].tolist() == [*decode(model, seen[:2, 0])[0], -1, -1, -1, -1]


# Kalman filter


@pytest.fixture(scope="module")
def kalman() -> ModuleType:
    return load("kalman")


def joint_gaussian(example: ModuleType, steps: int, acceleration: float, blur: float) -> tuple[np.ndarray, np.ndarray]:
    """The covariance of all states, and of all positions as observed, without any filter."""
    process = acceleration**2 * example.PUSH @ example.PUSH.T
    states: Any = np.zeros((steps + 1, 4, steps + 1, 4))
    states[0, :, 0] = np.eye(4)
    for step in range(1, steps + 1):
        for before in range(step):
            states[step, :, before] = example.MOVE @ states[step - 1, :, before]
            states[before, :, step] = states[step, :, before].T
        states[step, :, step] = example.MOVE @ states[step - 1, :, step - 1] @ example.MOVE.T + process
    states = states[1:, :, 1:].reshape(4 * steps, 4 * steps)
    look = np.kron(np.eye(steps), example.LOOK)
    return states, look @ states @ look.T + blur**2 * np.eye(2 * steps)


def log_density(example: ModuleType, observed: np.ndarray, acceleration: float, blur: float) -> float:
    """The log-density of what was observed, as one Gaussian vector."""
    seen = np.flatnonzero(~np.isnan(observed.ravel()))
    covariance = joint_gaussian(example, len(observed), acceleration, blur)[1][np.ix_(seen, seen)]
    values = observed.ravel()[seen]
    distance = values @ np.linalg.solve(covariance, values) if len(seen) else 0.0
    return -0.5 * (distance + np.linalg.slogdet(covariance)[1] + len(seen) * np.log(2 * np.pi))


@pytest.mark.parametrize(("steps", "missing"), [(0, 0.0), (1, 0.0), (6, 0.0), (9, 0.5), (5, 1.0)])
def test_kalman_is_conditioning_of_one_gaussian(kalman: ModuleType, steps: int, missing: float) -> None:
    _, observed = kalman.simulate(max(steps, 1), acceleration=2.0, blur=0.3, missing=missing, seed=steps)
    observed = observed[:steps]
    log_likelihood, means = kalman.kalman(observed, 1.5, 0.4)
    assert log_likelihood == pytest.approx(log_density(kalman, observed, 1.5, 0.4), abs=1e-8)
    states, positions = joint_gaussian(kalman, steps, 1.5, 0.4)
    look = np.kron(np.eye(steps), kalman.LOOK)
    for step in range(steps):
        seen = np.flatnonzero(~np.isnan(observed[: step + 1].ravel()))
        weights = np.linalg.solve(positions[np.ix_(seen, seen)], observed.ravel()[seen])
        expected = (states @ look.T)[4 * step : 4 * step + 4, seen] @ weights
        np.testing.assert_allclose(means[step], expected, atol=1e-8)


def test_gradients_of_kalman_are_finite_differences(kalman: ModuleType) -> None:
    _, observed = kalman.simulate(12, acceleration=2.0, blur=0.3, missing=0.4, seed=0)
    noise = torch.tensor([1.5, 0.4], dtype=torch.float64, requires_grad=True)
    kalman.kalman(torch.as_tensor(observed), *noise)[0].backward()
    for place in range(2):
        step = 1e-5 * np.eye(2)[place]
        ends = [log_density(kalman, observed, *(np.array([1.5, 0.4]) + sign * step)) for sign in (1, -1)]
        assert noise.grad is not None
        assert noise.grad[place].item() == pytest.approx((ends[0] - ends[1]) / 2e-5, rel=1e-6)


def test_fitting_the_noise_of_kalman_raises_the_likelihood(kalman: ModuleType) -> None:
    _, observed = kalman.simulate(30, acceleration=2.0, blur=0.3, missing=0.4, seed=1)
    assert log_density(kalman, observed, *kalman.fit(observed, epochs=15)) > log_density(kalman, observed, 1.0, 1.0) + 5


# Imputation

NUM_VALUES = 3


@pytest.fixture
def circuit() -> torch.nn.Module:
    described = image_data(
        (1, 2, 3),
        "quad-tree-2",
        input_layer="categorical",
        num_values=NUM_VALUES,
        num_input_units=3,
        sum_product_layer="cp",
        num_sum_units=3,
    )
    compiled = plica.compile(described, dtype=torch.float64)
    compiled.reset_parameters(seed=0)
    with torch.no_grad():
        for parameter in compiled.parameters():
            parameter.mul_(4)  # far from uniform, so that the values of variables matter to each other
    return compiled


def erased(count: int, seed: int) -> torch.Tensor:
    generator = np.random.default_rng(seed)
    rows = generator.integers(NUM_VALUES, size=(count, 6)).astype("float64")
    rows[generator.random(rows.shape) < 0.6] = np.nan
    return torch.as_tensor(rows)


def plain_impute(circuit: torch.nn.Module, rows: torch.Tensor, sweeps: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Iterated conditional modes, one row, one variable and one value after the other."""
    missing, rows, scores = rows.isnan(), rows.clone(), []
    for _ in range(sweeps):
        for row, variable in itertools.product(range(len(rows)), range(rows.shape[1])):
            if missing[row, variable]:
                tried = rows[row].repeat(NUM_VALUES, 1)
                tried[:, variable] = torch.arange(NUM_VALUES)
                rows[row, variable] = circuit(tried).ravel().argmax()
        scores.append(circuit(rows)[:, 0, 0])
    return rows, torch.stack(scores)


@torch.no_grad()
def test_imputation_is_the_plain_loop(circuit: Any) -> None:
    impute = load("imputation").make_impute(circuit, NUM_VALUES)
    for count, sweeps in ((40, 3), (1, 1), (7, 2), (0, 2)):
        rows = erased(count, seed=count)
        filled, scores = impute(rows, sweeps)
        expected, log_likelihoods = plain_impute(circuit, rows, sweeps) if count else (rows, torch.zeros(sweeps, 0))
        torch.testing.assert_close(filled, expected)
        torch.testing.assert_close(scores, log_likelihoods, check_dtype=False)
        assert torch.equal(filled[~rows.isnan()], rows[~rows.isnan()])
    assert impute.num_compilations == 1


@torch.no_grad()
def test_no_sweep_of_imputation_makes_a_row_less_likely(circuit: torch.nn.Module) -> None:
    filled, scores = load("imputation").make_impute(circuit, NUM_VALUES)(erased(200, seed=1), 4)
    assert ((scores[1:] - scores[:-1]) > -1e-9).all()
    assert scores[-1].sum() > scores[0].sum() + 1e-3
    torch.testing.assert_close(scores[-1], circuit(filled)[:, 0, 0])


@torch.no_grad()
def test_imputation_sees_parameters_that_change(circuit: Any) -> None:
    impute, rows = load("imputation").make_impute(circuit, NUM_VALUES), erased(30, seed=2)
    before, _ = impute(rows, 2)
    circuit.reset_parameters(seed=1)
    after, scores = impute(rows, 2)
    expected, log_likelihoods = plain_impute(circuit, rows, 2)
    torch.testing.assert_close(after, expected)
    torch.testing.assert_close(scores, log_likelihoods)
    assert not torch.equal(before, after)


# Primes


def test_growing_finds_the_first_primes() -> None:
    first_primes = load("growing").first_primes
    known = [number for number in range(2, 8000) if all(number % other for other in range(2, int(number**0.5) + 1))]
    for count in (0, 1, 2, 3, 4, 25, 168, 1000):
        assert first_primes(count).tolist() == known[:count]
    assert first_primes.num_compilations == 1


# Serving


@pytest.fixture(scope="module")
def serving() -> ModuleType:
    return load("serving")


SIZES = (32, 48, 16)


def random_layers(seed: int) -> list[torch.Tensor]:
    torch.manual_seed(seed)
    inputs, hidden, outputs = SIZES
    return [torch.randn(inputs, hidden), torch.randn(hidden), torch.randn(hidden, outputs), torch.randn(outputs)]


def plain_mlp(x: np.ndarray, constants: dict[str, Any]) -> np.ndarray:
    """The model of integers and scales in plain numpy, in float64."""
    w1, s1, b1, w2, s2, b2 = (np.asarray(one).astype("float64") for one in constants.values())
    return np.maximum(x @ (w1 * s1) + b1, 0) @ (w2 * s2) + b2


@pytest.mark.parametrize("bits", [8, 4])
def test_what_is_served_is_the_quantized_model(serving: ModuleType, bits: int) -> None:
    folded = serving.fold(SIZES, bits)
    given, other = (serving.constants(random_layers(seed), bits) for seed in range(2))
    run = folded.compile(release_sources=True)
    run(np.zeros((1, 32), "float32"), **given)
    codes, scales, biases = (32 * 48 + 48 * 16) * bits // 8, 4 * (48 + 16), 4 * (48 + 16)
    assert run.num_bytes == codes + scales
    assert folded.report().before == folded.report().after == codes + scales + biases
    for rows in (1, 5, 64):
        x = np.random.default_rng(rows).normal(size=(rows, 32)).astype("float32")
        np.testing.assert_allclose(run(x), plain_mlp(x, given), rtol=1e-4, atol=1e-4)
    assert run.num_folds == 4
    run.update(**other)
    np.testing.assert_allclose(run(x), plain_mlp(x, other), rtol=1e-4, atol=1e-4)
    assert run.num_bytes == codes + scales


@pytest.mark.parametrize("bits", [8, 4])
def test_quantizing_rounds_to_the_nearest_of_a_column(serving: ModuleType, bits: int) -> None:
    weight = np.random.default_rng(0).normal(size=(32, 16)).astype("float32")
    weight[:, 3] = 0.0
    codes, scale = serving.quantize(weight, bits)
    assert np.abs(np.asarray(codes).astype("int8")).max() == 2 ** (bits - 1) - 1
    assert (np.abs(np.asarray(codes).astype("float32") * scale - weight) <= scale * 0.5001).all()


def test_training_lowers_the_error(serving: ModuleType) -> None:
    x = torch.as_tensor(np.random.default_rng(0).normal(size=(64, 32)), dtype=torch.float32)
    y = x[:, :16]
    parameters = [(0.1 * one).requires_grad_() for one in random_layers(0)]

    def loss() -> float:
        return float((serving.mlp(x, *parameters) - y).square().mean())

    before = loss()
    serving.train(parameters, x, y, steps=20)
    assert loss() < 0.7 * before


# Hidden trees


def test_hidden_trees_of_a_folder_of_binary_sets(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = np.random.default_rng(0)
    rows = rng.integers(2, size=(500, 6))
    rows[:, 3:] = rows[:, :3] ^ (rng.random((500, 3)) < 0.1)
    parts = dict(zip(("train", "valid", "test"), np.split(rows.astype("uint8"), (300, 400)), strict=True))
    packed: dict[str, Any] = {name: np.packbits(part, axis=1) for name, part in parts.items()}
    np.savez(tmp_path / "debd_dna.npz", num_variables=6, **packed)
    example = load("hidden_trees")
    train = partial(example.train, latents=4, epochs=20, batch=50)
    monkeypatch.setattr(example, "train", train)
    example.main(tmp_path)
    name, variables, alone, tree, _ = capsys.readouterr().out.splitlines()[2].split()
    assert (name, variables) == ("debd_dna", "6")
    assert float(alone) == pytest.approx(6 * np.log(0.5), abs=0.05)
    noise = 0.1 * np.log(0.1) + 0.9 * np.log(0.9)
    assert float(tree) == pytest.approx(3 * (np.log(0.5) + noise), abs=0.15)


# A hidden Markov model of letters


def test_two_states_are_vowels_and_consonants() -> None:
    example = load("hmm")
    lines = example.read_lines(EXAMPLES.parent / "LICENSE")
    assert lines.shape[1] == 50
    assert "".join(example.SYMBOLS[symbol] for symbol in lines[0, :33]) == "apache license version january ht"
    circuit = hmm(range(50), num_latent_states=2, input_layer_kwargs={"num_categories": 27}, homogeneous=True)
    model = plica.compile(circuit, dtype=torch.float64)
    model.reset_parameters(seed=0)
    before = model(lines).mean().item()
    example.train(model, lines, epochs=80)
    assert model(lines).mean().item() > before + 30
    emission, transition, start = example.tables(model)
    state = dict(zip(example.SYMBOLS, emission.argmax(axis=0), strict=True))
    assert len({state[letter] for letter in "aeiou "}) == 1
    assert all(state[letter] != state["e"] for letter in "cdlmnrstv")
    found = example.forward_procedure(emission, transition, start, lines.numpy())
    np.testing.assert_allclose(found, model(lines).detach().numpy()[:, 0, 0], rtol=0, atol=1e-9)


def test_the_forward_procedure_is_a_sum_over_paths() -> None:
    generator, (states, symbols, steps) = np.random.default_rng(0), (3, 4, 5)
    emission, transition, start = (
        generator.dirichlet(np.ones(n), k) for n, k in ((symbols, states), (states, states), (states, 1))
    )
    lines = generator.integers(symbols, size=(6, steps))
    expected = np.zeros(6)
    for path in itertools.product(range(states), repeat=steps):
        moves = np.prod([transition[one, other] for one, other in itertools.pairwise(path)])
        expected += start[0, path[0]] * moves * np.prod(emission[path, lines], axis=1)
    found = load("hmm").forward_procedure(emission, transition, start, lines)
    np.testing.assert_allclose(found, np.log(expected), atol=1e-12)


# Constrained generation


def test_next_letters_are_weighted_by_what_may_still_be_written(monkeypatch: pytest.MonkeyPatch) -> None:
    example = load("constrained_generation")
    for name, value in {"SYMBOLS": "ab", "STEPS": 6, "STATES": 3, "WORDS": ("ab", "aa")}.items():
        monkeypatch.setattr(example, name, value)
    monkeypatch.setattr(example, "read_lines", lambda _: torch.zeros(2, 6))
    monkeypatch.setattr(example, "train", lambda *_, **__: None)
    model, automaton, product = example.build()
    lines = torch.tensor(list(itertools.product(range(2), repeat=6)))
    with torch.no_grad():
        likely = model(lines).exp().flatten().numpy()
    kept = np.array([automaton.accepts(example.text(line)) for line in lines])
    assert kept.sum() == sum("aa" in line[line.find("ab") + 2 :] for line in map(example.text, lines) if "ab" in line)
    assert example.forward_procedure(model, automaton) == pytest.approx(likely[kept].sum(), rel=1e-12)
    for prefix in ("", "a", "ab", "bba", "bbab", "ababb"):
        for letter, weight in zip("ab", example.next_letters(model, product, prefix), strict=True):
            begins = np.array([example.text(line).startswith(prefix + letter) for line in lines])
            assert weight.item() == pytest.approx(likely[kept & begins].sum() / likely[begins].sum(), abs=1e-12)


# Parameters from a network


def test_a_network_that_gives_parameters_beats_parameters_alike_for_all_rows() -> None:
    losses, of_rows, of_all, conditional = load("neural_parameters").run(epochs=40)
    assert losses[-1] < losses[len(losses) // 2] < losses[0]
    assert of_rows > of_all + 1
    assert not list(conditional.circuit.parameters())
    x, y = torch.zeros(3, 2), torch.zeros(3, 2)
    given = conditional.parameters_of(x)
    means = torch.stack([given["mean 0"], given["mean 1"]])  # (2, B, K)
    spreads = torch.stack([given["spread 0"], given["spread 1"]])
    deviations = torch.nn.functional.softplus(spreads) + 0.1
    densities = torch.distributions.Normal(means, deviations).log_prob(torch.zeros(()))
    by_hand = (given["weight"][:, 0].log_softmax(-1) + densities.sum(0)).logsumexp(-1)
    assert torch.allclose(conditional(x, y), by_hand, atol=1e-5)


# A Gaussian mixture


def test_the_density_of_a_mixture_adds_up_to_one_and_is_drawn(tmp_path: Path) -> None:
    example = load("gaussian_mixture")
    points = example.make_moons(200, noise=0.1, random_state=0)[0].astype("float32")
    circuit = example.train(points, epochs=3)
    density, area = example.grid(circuit, size=500, low=(-20, -20), high=(20, 20))
    assert density.sum() * area == pytest.approx(1, abs=1e-3)
    example.draw(circuit, points, tmp_path / "picture.png")
    assert (tmp_path / "picture.png").read_bytes()[1:4] == b"PNG"


# Tables with holes


@pytest.mark.full
def test_what_is_known_of_a_table_stays_and_what_is_filled_in_is_better_than_a_guess(tmp_path: Path) -> None:
    example = load("mixed_imputation")
    values = example.table()
    lacking = example.hide(values, 0.3, 1)
    results = {}
    for name, impute in example.IMPUTERS.items():
        filled = impute(lacking)
        known = ~np.isnan(lacking)
        np.testing.assert_array_equal(filled[known], values[known])
        assert set(np.unique(filled[:, example.KIND])) <= {0, 1, 2}
        error, wrong = example.errors(values, lacking, filled)
        assert error < 0.95  # the mean of all rows has 1
        assert wrong < 0.5
        results[name] = {0.3: (error, wrong)}
    example.draw(results, tmp_path / "picture.png")
    assert (tmp_path / "picture.png").read_bytes()[1:4] == b"PNG"


# Digit sums


@pytest.mark.full
def test_digits_are_learned_from_sums_and_answers_satisfy_the_constraint(capsys: pytest.CaptureFixture[str]) -> None:
    digit_accuracy, (semantic, independent), (valid, valid_by_chance) = load("digit_sums").main(epochs=(16, 25))
    assert digit_accuracy > 0.95
    assert semantic > 0.97
    assert semantic > independent + 0.1
    assert valid == 1.0 > valid_by_chance
    assert "an addition: 100 models of 39 variables" in capsys.readouterr().out


def test_the_best_answer_is_the_most_probable_model() -> None:
    example = load("digit_sums")
    torch.manual_seed(0)
    probabilities = torch.rand(20, 3, 10).softmax(2)
    layer = example.SemanticLayer(example.addition(10))
    weights = example.literal_weights(*probabilities.unbind(1))
    a, b = (grid.flatten() for grid in torch.meshgrid(torch.arange(10), torch.arange(10), indexing="ij"))
    models = probabilities[:, 0, a] * probabilities[:, 1, b] * probabilities[:, 2, (a + b) % 10]  # (20, 100)
    best = models.argmax(1)
    expected = torch.cat([example.one_hot(value[best], 10) for value in (a, b, (a + b) % 10)], dim=1)
    assert torch.equal(layer.best(weights), expected.long())
    torch.testing.assert_close(layer.log_likelihood(weights, expected), (models.amax(1) / models.sum(1)).log())


@pytest.mark.full
def test_digits_are_drawn_where_there_are_no_images(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    example = load("digit_sums")
    torch.manual_seed(0)
    train, (pixels, labels) = example.images()
    assert pixels.shape == (397, 64)
    net = example.learn_from_sums(example.addition(19), train, 12)
    assert (net(pixels).argmax(1) == labels).float().mean() > 0.95


# Squares against mixtures


@pytest.mark.full
def test_one_square_is_worse_than_a_mixture_and_two_are_better() -> None:
    example = load("squares_against_mixtures")
    models, scores = example.compare(example.spirals, steps=100, count=20_000)
    assert [example.size(model) for model in models.values()] == [294] * 4
    assert scores["square"] + 0.01 < scores["mixture"]
    assert scores["mixture"] + 0.02 < scores["complex square"]
    assert scores["complex square"] + 0.01 < scores["sum of squares"]
    grid = torch.cartesian_prod(torch.arange(example.SIDE), torch.arange(example.SIDE))
    for model in models.values():
        torch.testing.assert_close(log_likelihood(model, grid).exp().sum().item(), 1.0, atol=1e-4, rtol=0.0)


@pytest.mark.full
def test_densities_of_a_ring_and_of_spirals_are_drawn(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    load("squares_against_mixtures").main(tmp_path / "densities.png")
    lines = capsys.readouterr().out.splitlines()
    ring, spirals = (
        {
            line.split(" of ")[0].partition(", ")[2]: float(line.split(": ")[1])
            for line in lines
            if line.startswith(name)
        }
        for name in ("ring", "spirals")
    )
    assert spirals["square"] < spirals["mixture"] < spirals["complex square"] < spirals["sum"]
    others = [value for name, value in ring.items() if name != "square"]
    assert ring["square"] < min(others) - 0.05
    assert max(others) - min(others) < 0.03
    assert (tmp_path / "densities.png").read_bytes()[1:4] == b"PNG"
