"""A query of one's own is one function and one row of a context: asked eagerly, under torch.compile, of a file."""

import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch

import plica.native
import plica.numpy as pnp
from plica.errors import DTypeError, InputError, UnsupportedError
from plica.lower.queries.mpe import LARGEST
from plica.lower.queries.query import Choosing, Entry, Flowing, Query, Upward
from plica.pipeline import PipelineContext
from plica.queries import ask, covariance, mean, mpe, sample, variance
from plica.symbolic.circuit import Circuit
from plica.symbolic.layers import CategoricalLayer, HadamardLayer, VonMisesLayer
from plica.symbolic.parameters import ConstantParameter, Parameter
from plica.symbolic.semirings import LSE_SUM, SEMIRINGS
from tests.harness.circuits import product_then_sum
from tests.harness.own_queries import GREEDY, SECOND_MOMENT, greedy, second_moment

K, D, C = 3, 4, 5
RNG = np.random.default_rng(30)
TABLES = RNG.dirichlet(np.full(C, 0.4), (D, K))  # probabilities of states, by variable and group
WEIGHTS = RNG.dirichlet(np.ones(K))


def described() -> Circuit:
    """A mixture of three groups."""
    layers = [
        CategoricalLayer([v], K, num_categories=C, probs=ConstantParameter(K, C, value=TABLES[v].tolist()))
        for v in range(D)
    ]
    weight = Parameter.from_input(ConstantParameter(1, K, value=[WEIGHTS.tolist()]))
    return product_then_sum(HadamardLayer(K, D), layers, weight=weight)


def rows(count: int = 40) -> np.ndarray[Any, Any]:
    """Rows with holes, one with nothing else and one without."""
    rng = np.random.default_rng(31)
    x = rng.integers(0, C, (count, D)).astype(np.float64)
    x[rng.random(x.shape) < 0.5] = np.nan
    x[0], x[1] = np.nan, 1.0
    return x


def by_group(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The probability of each group together with what is known of rows, `(R, K)`."""
    found = np.tile(WEIGHTS, (len(x), 1))
    for variable in range(D):
        known = ~np.isnan(x[:, variable])
        found[known] *= TABLES[variable][:, x[known, variable].astype(int)].T
    return found


def expected_greedy(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Rows in which the most probable group, given the rest, fills in its most probable states."""
    best = TABLES.argmax(axis=2)[:, by_group(x).argmax(axis=1)].T
    return np.where(np.isnan(x), best, x)


def compiled(**options: Any) -> Any:
    """The circuit in a context with both queries."""
    context = PipelineContext(dtype="float64", **options)
    context.add_query_rule(GREEDY)
    context.add_query_rule(SECOND_MOMENT)
    return context.compile(described()).eval()


@pytest.mark.parametrize("options", [{}, {"fold": False, "optimize": False}, {"semiring": "sum-product"}], ids=str)
def test_answers_are_those_of_the_oracle(options: dict[str, Any]) -> None:
    circuit, x = compiled(**options), rows()
    completed, logs = greedy(circuit, torch.from_numpy(x))
    np.testing.assert_array_equal(completed.numpy(), expected_greedy(x))
    np.testing.assert_allclose(logs.numpy(), np.log(by_group(x).sum(axis=1)), rtol=1e-12, atol=1e-14)
    assert not torch.equal(completed, mpe(circuit, torch.from_numpy(x))[0])  # it is another query
    shares = by_group(x) / by_group(x).sum(axis=1, keepdims=True)
    squares = np.einsum("rk,vkc,c->rv", shares, TABLES, np.arange(C) ** 2.0)
    expected = np.where(np.isnan(x), squares, x**2)
    np.testing.assert_allclose(second_moment(circuit, torch.from_numpy(x)).numpy(), expected, rtol=1e-12, atol=1e-14)


def test_torch_compile_runs_them_as_they_are() -> None:
    circuit, x = compiled(), torch.from_numpy(rows())

    def both(data: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return greedy(circuit, 2 * data / 2)[0] + 1, 2 * second_moment(circuit, data)

    for found, expected in zip(torch.compile(both, backend="eager")(x), both(x), strict=True):
        torch.testing.assert_close(found, expected, rtol=0, atol=0)


def test_a_native_file_answers_one_that_has_an_entry(tmp_path: Path) -> None:
    circuit, x, path = compiled(), rows(), tmp_path / "own.plicab"
    plica.native.compile(circuit, path=path, queries=["greedy-completion", "mpe"])
    with plica.native.load(path) as file:
        completed, logs = file(x)
        best, _ = file["mpe"](x)
    np.testing.assert_array_equal(completed, expected_greedy(x))
    np.testing.assert_allclose(logs, np.log(by_group(x).sum(axis=1)), rtol=1e-12, atol=1e-14)
    np.testing.assert_array_equal(best, mpe(circuit, torch.from_numpy(x))[0].numpy())
    plain = PipelineContext(dtype="float64").compile(described())
    with pytest.raises(InputError, match="there is no query 'greedy-completion' of native files; there are log-like"):
        plica.native.compile(plain, path=path, queries="greedy-completion")


def test_a_circuit_has_the_queries_of_its_context_when_it_was_compiled() -> None:
    context, x = PipelineContext(), torch.full((1, D), torch.nan)
    before = context.compile(described())
    context.add_query_rule(GREEDY)
    after = context.compile(described())
    for circuit in (before, PipelineContext().compile(described())):
        with pytest.raises(UnsupportedError, match=r"there is no query 'greedy'; there are log_lik.*add_query"):
            greedy(circuit, x)
    assert torch.equal(greedy(pickle.loads(pickle.dumps(after)), x)[0], greedy(after, x)[0])
    assert torch.equal(ask(after, "mean", x), mean(after, x))
    with pytest.raises(UnsupportedError, match="greedy takes a compiled circuit, found Circuit; compile it"):
        greedy(described(), x)


def test_one_in_the_place_of_plicas_own_is_asked_in_its_context_alone() -> None:
    def variance_(circuit: Any, x: Any) -> Any:
        return ask(circuit, "variance", x)

    variance_.__name__ = "variance"
    zeros = Query(variance_, "no variance", Flowing(lambda reading: [0 * reading.mean()], ("mean",)))
    context, x = PipelineContext(dtype="float64"), torch.full((1, D), torch.nan, dtype=torch.float64)
    with pytest.raises(UnsupportedError, match="variance has a row already; pass override=True"):
        context.add_query_rule(zeros)
    context.add_query_rule(zeros, override=True)
    own, plain = context.compile(described()), PipelineContext(dtype="float64").compile(described())
    assert not variance(own, x).any()
    assert (variance(plain, x) > 0).all()
    torch.testing.assert_close(covariance(own, range(D)), covariance(plain, range(D)))
    assert torch.equal(sample(own, 3, seed=1), sample(plain, 3, seed=1))


def test_rows_that_are_wrong_are_refused() -> None:
    context = PipelineContext()
    with pytest.raises(DTypeError, match="add_query_rule takes a Query, found function"):
        context.add_query_rule(greedy)  # type: ignore[arg-type]
    with pytest.raises(DTypeError, match="greedy decoding: ask must be a named function, found 'greedy'"):
        context.add_query_rule(Query("greedy", "greedy decoding", GREEDY.policy))  # type: ignore[arg-type]
    with pytest.raises(DTypeError, match=r"greedy decoding: a policy is Flowing.*, Choosing.* or Composed.*, found 3"):
        Query(greedy, "greedy decoding", 3)  # type: ignore[type-var]
    with pytest.raises(DTypeError, match=r"greedy decoding: Upward\(\.\.\.\) needs a driver"):
        Query(greedy, "greedy decoding", Upward(("marginal",)))
    with pytest.raises(DTypeError, match=r"the second moment: native files do not answer a query of Flowing"):
        replace(SECOND_MOMENT, entries=(Entry("second-moment", ""),))
    with pytest.raises(DTypeError, match="an entry's name is made of letters, digits and '-', found 'of mine'"):
        Entry("of mine", "")
    for taken, other in (("mpe", "mpe"), ("log_likelihood", "log_likelihood")):  # or `log-likelihood`, one function
        context = PipelineContext()
        context.add_query_rule(replace(GREEDY, entries=(Entry(taken, ""),)))
        with pytest.raises(InputError, match=f"{other} and greedy both have an entry {taken!r}; rename one of them"):
            plica.native.stablehlo(context.compile(described()), taken)


@pytest.mark.parametrize(
    ("policy", "entries", "message"),
    [
        (Flowing(cast("Any", 3)), (), "read must be a function, found 3"),
        (Flowing(cast("Any", list), cast("Any", "mean")), (), r"moments must be a tuple of columns .* found 'mean'"),
        (Flowing(cast("Any", list), ("median",)), (), r"moments must be a tuple of columns .* found \('median',\)"),
        (Choosing(cast("Any", "lse-sum"), LARGEST), (), "semiring must be one of logarithms .* found 'lse-sum'"),
        (Choosing(SEMIRINGS["boolean"], LARGEST), (), "semiring must be one of logarithms .* found 'boolean'"),
        (Choosing(LSE_SUM, cast("Any", 3)), (), "chooser must be a Chooser, such as DRAW or LARGEST, found 3"),
        (Choosing(LSE_SUM, replace(LARGEST, column=cast("Any", "mean"))), (), "the column of a chooser is"),
        (GREEDY.policy, Entry("greedy", ""), r"entries are a tuple of Entry\(...\), found Entry"),
        (GREEDY.policy, (Entry("greedy", "", data="none"),), "an entry without data is of a query that draws"),
    ],
)
def test_policies_and_entries_that_are_wrong_are_refused(policy: Any, entries: Any, message: str) -> None:
    with pytest.raises(DTypeError, match=f"^greedy decoding: {message}"):
        Query(greedy, "greedy decoding", policy, entries=entries)
    with pytest.raises(DTypeError, match="the entry 'greedy' takes usual, floats, none, found 'rows'"):
        Entry("greedy", "", cast("Any", "rows"))


@pytest.mark.parametrize(
    ("read", "message"),
    [
        (lambda _: None, "`read` gave NoneType None, expected a list of arrays whose axis 0 counts rows"),
        (lambda reading: reading.mean(), r"`read` gave f64\[b,4\], expected a list"),
        (lambda _: [3.0], "result 0 of `read` is float 3.0"),
        (lambda reading: [reading.mean(), pnp.sum(reading.mean(), axis=0)], r"result 1 of `read` is f64\[4\]"),
    ],
)
def test_what_a_query_reads_off_is_checked(read: Any, message: str) -> None:
    context = PipelineContext(dtype="float64")
    context.add_query_rule(replace(SECOND_MOMENT, policy=Flowing(read, ("mean",))))
    with pytest.raises(DTypeError, match=f"^the second moment: {message}"):
        second_moment(context.compile(described()), torch.full((2, D), torch.nan))


def test_a_moment_that_a_layer_lacks_is_no_number() -> None:
    """Also where the policy does not name it."""
    context = PipelineContext()
    context.add_query_rule(replace(SECOND_MOMENT, policy=Flowing(lambda reading: [reading.mean()])))
    layer = VonMisesLayer([0], 1)
    with pytest.raises(UnsupportedError, match=r"VonMisesLayer\(0, .* an angle has no mean .* moments=\('mean', ...\)"):
        second_moment(context.compile(Circuit([layer], {}, [layer])), torch.full((1, 1), torch.nan))
