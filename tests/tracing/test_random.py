"""Random numbers: known answers, the interpreter is torch bit for bit, statistics, keys, unknown shapes, misuse."""

import re
from typing import Any

import numpy as np
import pytest
import scipy.stats
import torch

import plica
import plica.numpy as pnp
from plica.backend.torch import random as torch_random
from plica.errors import DTypeError, InputError, ShapeError
from plica.frontend.programs import interpret, trace, verify
from plica.ir.types import spec
from plica.ops.random import block, blocks
from tests.harness.programs import run_torch, to_torch
from tests.harness.together import grouped

rnd = pnp.random
KEY = np.asarray([0x13198A2E, 0x03707344])
F32 = torch.float32
KEY_SPEC = spec((2,), "int64")

# counter, key and result from the known-answer tests of Random123, "threefry2x32 20"
KNOWN = (
    ((0x00000000, 0x00000000), (0x00000000, 0x00000000), (0x6B200159, 0x99BA4EFE)),
    ((0xFFFFFFFF, 0xFFFFFFFF), (0xFFFFFFFF, 0xFFFFFFFF), (0x1CB996FC, 0xBB002BE7)),
    ((0x243F6A88, 0x85A308D3), (0x13198A2E, 0x03707344), (0xC4923A9C, 0x483DF7A0)),
)


@pytest.mark.parametrize(("counter", "key", "result"), KNOWN)
def test_known_answers(counter, key, result) -> None:
    counters = np.asarray([counter[0] << 32 | counter[1]], "uint64").astype("int64")
    assert block(key, counters.item()) == result
    assert blocks(np.asarray(key), counters).tolist() == [list(result)]
    found = torch_random.threefry(torch.tensor(key), torch.tensor(counters))
    assert tuple(word & 0xFFFFFFFF for word in found[0].tolist()) == result


def test_many_blocks_are_single_blocks() -> None:
    counters = np.random.default_rng(0).integers(-(1 << 63), (1 << 63) - 1, 100)
    expected = [list(block(KEY.tolist(), counter)) for counter in counters.tolist()]
    assert blocks(KEY, counters).tolist() == expected
    found = torch_random.threefry(torch.tensor(KEY), torch.tensor(counters))
    assert (found.long() & 0xFFFFFFFF).tolist() == expected
    assert blocks(KEY - (1 << 32), counters).tolist() == expected  # the low 32 bits of a key count


def test_whoever_transforms_a_draw_gets_the_same_numbers() -> None:
    """`vmap` and `torch.compile` see tensors whose elements are not at hand."""

    def draw(key: torch.Tensor) -> tuple[torch.Tensor, ...]:
        inner = torch_random.fold_in(key, torch.tensor(3))
        keys = torch_random.split(key, 3)
        return keys, inner, torch_random.bits(inner, (3, 5), 32), torch_random.uniform(key, (7,), 24, "(0,1)", F32)

    keys = torch_random.split(torch.tensor(KEY), 4)
    expected = [draw(key) for key in keys]
    mapped = torch.vmap(draw)(keys)
    compiled = torch.compile(draw, backend="eager", fullgraph=True)
    for place, one in enumerate(expected):
        for found in ([part[place] for part in mapped], compiled(keys[place])):
            for first, second in zip(found, one, strict=True):
                assert torch.equal(first, second)


def both(call: Any, *arrays: Any) -> np.ndarray:
    """The same bits from the interpreter and from torch, traced and eager."""
    program = trace(call, *[spec(array.shape, array.dtype) for array in arrays])
    verify(program)
    (expected,) = interpret(program, *arrays)
    tensors = [to_torch(array) for array in arrays]
    for found in (run_torch(program, *tensors)[0].numpy(), np.asarray(call(*arrays)), call(*tensors).numpy()):
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)
    return expected


P = np.asarray([0.0, 0.25, 1.0], "float32")
EXACT = {
    "bits": lambda key: rnd.bits(key, (3, 7)),
    "bits-1": lambda key: rnd.bits(key, 65, width=1),
    "bits-63": lambda key: rnd.bits(key, (5,), width=63),
    "bits-64": lambda key: rnd.bits(key, (5,), width=64),
    "split": lambda key: rnd.split(key, 5),
    "fold_in": lambda key: rnd.fold_in(key, -3),
    "uniform-float16": lambda key: rnd.uniform(key, (1000,), dtype="float16"),
    "uniform-float32": lambda key: rnd.uniform(key, (1000,)),
    "uniform-float64": lambda key: rnd.uniform(key, (1000,), dtype="float64"),
    "uniform-interval": lambda key: rnd.uniform(key, (1000,), minval=-2.5, maxval=7),
    "randint": lambda key: rnd.randint(key, (1000,), -7, 1 << 40),
    "randint-uint8": lambda key: rnd.randint(key, (10, 10), 3, 200, dtype="uint8"),
    "bernoulli": lambda key: rnd.bernoulli(key, 0.3, (100,)),
    "permutation": lambda key: rnd.permutation(key, 100),
    "choice": lambda key: rnd.choice(key, 10, (4, 5)),
    "choice-without": lambda key: rnd.choice(key, 10, (2, 5), replace=False),
    "scalar": rnd.uniform,
    "empty": lambda key: rnd.uniform(key, (3, 0)),
}


@pytest.mark.parametrize("name", EXACT)
def test_interpreter_and_torch_draw_the_same_bits(name: str) -> None:
    both(EXACT[name], KEY)


def test_arrays_beside_the_key() -> None:
    both(lambda key, p: rnd.bernoulli(key, p, (50, 3)), KEY, P)
    both(lambda key, low, high: rnd.randint(key, (4, 3), low, high), KEY, np.asarray([0, -5, 7]), np.asarray(9))
    both(lambda key, low, high: rnd.uniform(key, (4, 3), minval=low, maxval=high), KEY, P - 1, P + np.float32(2))
    both(lambda key, x: rnd.permutation(key, x, axis=1), KEY, np.arange(20).reshape(2, 10))
    both(lambda key, x: rnd.choice(key, x, (2, 3), replace=False), KEY, np.arange(10) * 0.5)
    both(lambda key, x, p: rnd.choice(key, x, 20, p=p), KEY, np.arange(3), P)
    both(lambda key, x: rnd.categorical(key, x, shape=(8, 3)), KEY, np.asarray([[0.0, 0.5, -np.inf]] * 3))


def test_a_long_draw_is_made_of_pieces_of_the_same_numbers() -> None:
    count = 2 * torch_random._PIECE * torch.get_num_threads() * 2 + 1
    for width in (32, 64):
        found = both(lambda key: rnd.bits(key, count, width=width), KEY)  # noqa: B023
        np.testing.assert_array_equal(interpret(trace(lambda key: rnd.bits(key, (3, 5), width=width), KEY_SPEC), KEY)[0],  # noqa: B023,E501
                                      found[:15].reshape(3, 5))  # fmt: skip


def test_elements_are_the_words_of_their_counters() -> None:
    words = blocks(KEY, np.arange(4)).astype("int64")
    assert rnd.bits(KEY, 8).tolist() == words.ravel().tolist()
    assert rnd.bits(KEY, 8, width=5).tolist() == (words.ravel() >> 27).tolist()
    wide = (words[:, 0].astype("uint64") << np.uint64(32)) | words[:, 1].astype("uint64")
    assert rnd.bits(KEY, 4, width=64).astype("uint64").tolist() == wide.tolist()
    assert rnd.bits(KEY, 4, width=40).tolist() == (wide >> np.uint64(24)).tolist()
    assert rnd.uniform(KEY, 8).tolist() == ((words.ravel() >> 8) * 2.0**-24).tolist()
    # beyond the counters of any draw
    assert rnd.split(KEY, 4).tolist() == [list(block(KEY.tolist(), 2**63 + number)) for number in range(4)]


def test_floats_are_as_near_as_documented() -> None:
    for dtype, units in (("float32", 2), ("float64", 4)):
        program = trace(lambda k: rnd.normal(k, 20000, dtype=dtype), KEY_SPEC)  # noqa: B023
        _close(program, units, 3e-16)
        for name in ("exponential", "gumbel"):
            draw = getattr(rnd, name)
            program = trace(lambda k: draw(k, 20000, dtype=dtype), KEY_SPEC)  # noqa: B023
            _close(program, 4, 4 * float(np.finfo(dtype).eps))


def _close(program: Any, units: int, absolute: float) -> None:
    (expected,) = interpret(program, KEY)
    found = run_torch(program, to_torch(KEY))[0].numpy()
    assert np.isfinite(expected).all()
    assert found.dtype == expected.dtype
    np.testing.assert_array_less(np.abs(found - expected), units * np.spacing(np.abs(expected)) * 1.001 + absolute)


def test_wide_floats_stand_for_the_same_numbers() -> None:
    """`precise=True` computes float64 from the draws of the declared dtype."""
    for draw in (rnd.uniform, rnd.normal, rnd.exponential, rnd.gumbel):
        program = trace(lambda key: draw(key, 1000), KEY_SPEC)  # noqa: B023
        (narrow,), (wide,) = interpret(program, KEY), interpret(program, KEY, precise=True)
        assert wide.dtype == np.float64
        np.testing.assert_allclose(narrow, wide, rtol=1e-5, atol=1e-6)


N = 100_000
DISTRIBUTIONS = {
    "uniform": (lambda key, **k: rnd.uniform(key, N, **k), scipy.stats.uniform()),
    "interval": (lambda key, **k: rnd.uniform(key, N, minval=-3, maxval=-1, **k), scipy.stats.uniform(-3, 2)),
    "normal": (lambda key, **k: rnd.normal(key, N, **k), scipy.stats.norm()),
    "exponential": (lambda key, **k: rnd.exponential(key, N, **k), scipy.stats.expon()),
    "gumbel": (lambda key, **k: rnd.gumbel(key, N, **k), scipy.stats.gumbel_r()),
}


@pytest.mark.parametrize("name", DISTRIBUTIONS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_numbers_follow_their_distribution(name: str, dtype: str) -> None:
    draw, distribution = DISTRIBUTIONS[name]
    for seed in (1, 2):
        found = draw(torch.tensor([0, seed]), dtype=dtype).numpy()
        assert scipy.stats.kstest(found, distribution.cdf).pvalue > 1e-3
        assert abs(np.corrcoef(found[:-1], found[1:])[0, 1]) < 4 / np.sqrt(N)


def test_float16_is_coarse_but_right() -> None:
    key = torch.tensor([0, 3])
    found = rnd.uniform(key, N, dtype="float16")
    assert found.dtype == torch.float16
    assert torch.equal((found.double() * 2**11).round(), found.double() * 2**11)
    assert scipy.stats.chisquare(np.bincount((found.double() * 16).long().numpy(), minlength=16)).pvalue > 1e-3
    normal = rnd.normal(key, N, dtype="float16").double()
    assert abs(normal.mean()) < 0.02
    assert abs(normal.std() - 1) < 0.02
    assert normal.isfinite().all()


def _fits(found: Any, probabilities: Any) -> None:
    counts = np.bincount(np.asarray(found).ravel(), minlength=len(probabilities))
    wanted = np.asarray(probabilities) * counts.sum()
    assert counts[wanted == 0].sum() == 0
    assert scipy.stats.chisquare(counts[wanted > 0], wanted[wanted > 0]).pvalue > 1e-3


def test_counts_fit() -> None:
    key = torch.tensor([0, 4])
    weights = torch.tensor([1.0, 0.0, 2.0, 3.0, 4.0])
    probabilities = [0.1, 0.0, 0.2, 0.3, 0.4]
    _fits(rnd.bits(key, N, width=4), np.full(16, 1 / 16))
    _fits(rnd.randint(key, (N,), 5, 12) - 5, np.full(7, 1 / 7))
    _fits(rnd.randint(key, (N,), -3, 4, dtype="int8").long() + 3, np.full(7, 1 / 7))
    _fits(rnd.bernoulli(key, 0.3, (N,)).long(), [0.7, 0.3])
    _fits(rnd.categorical(key, weights.log(), shape=(N,)), probabilities)
    _fits(rnd.categorical(key, weights.log().expand(N, 5)), probabilities)
    _fits(rnd.categorical(key, weights.log().expand(N, 5).T, axis=0), probabilities)
    _fits(rnd.choice(key, 5, N, p=weights), probabilities)
    _fits(rnd.choice(key, 5, N), np.full(5, 0.2))
    for bit in range(32):
        ones = ((rnd.bits(key, N) >> bit) & 1).double().mean().item()
        assert abs(ones - 0.5) < 4 * 0.5 / np.sqrt(N)


def test_permutations_are_equally_likely() -> None:
    keys = rnd.split(torch.tensor([0, 5]), 3000)
    found = [tuple(rnd.permutation(key, 3).tolist()) for key in keys]
    assert sorted(set(found)) == [(0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)]
    assert scipy.stats.chisquare([found.count(one) for one in sorted(set(found))]).pvalue > 1e-3
    x = torch.arange(12).reshape(3, 4)
    assert sorted(map(tuple, rnd.permutation(keys[0], x).tolist())) == sorted(map(tuple, x.tolist()))
    chosen = rnd.choice(keys[0], x[1], (4,), replace=False)
    assert sorted(chosen.tolist()) == x[1].tolist()
    picked = [tuple(sorted(rnd.choice(key, 4, 2, replace=False).tolist())) for key in keys]
    assert scipy.stats.chisquare([picked.count(one) for one in sorted(set(picked))]).pvalue > 1e-3
    assert len(set(picked)) == 6


def test_keys_split_and_folded_are_unrelated() -> None:
    key = rnd.key(np.asarray(7))
    keys = [key, *rnd.split(key, 3), *(rnd.fold_in(key, i) for i in range(3)), rnd.fold_in(rnd.fold_in(key, 0), 0)]
    draws = np.stack([np.asarray(rnd.normal(one, 20_000)) for one in keys])
    correlations = np.corrcoef(draws) - np.eye(len(keys))
    assert np.abs(correlations).max() < 4.5 / np.sqrt(20_000)
    words = [tuple(one.tolist()) for one in keys] + [tuple(pair) for pair in rnd.bits(key, (500, 2)).tolist()]
    assert len(set(words)) == len(words)  # no key is what is drawn from another


def test_the_first_keys_do_not_depend_on_their_number() -> None:
    key = rnd.key(np.asarray(7))
    assert rnd.split(key).tolist() == rnd.split(key, 9)[:2].tolist()
    assert rnd.split(key, 0).shape == (0, 2)


def test_the_order_of_folding_matters() -> None:
    key = rnd.key(np.asarray(7))
    assert rnd.fold_in(rnd.fold_in(key, 1), 2).tolist() != rnd.fold_in(rnd.fold_in(key, 2), 1).tolist()


def test_seeds_are_the_halves_of_keys() -> None:
    for seed, words in (
        (0, [0, 0]),
        (5, [0, 5]),
        ((3 << 32) + 1, [3, 1]),
        (-1, [0xFFFFFFFF, 0xFFFFFFFF]),
        ((1 << 64) - 1, [0xFFFFFFFF, 0xFFFFFFFF]),
        (1 << 63, [1 << 31, 0]),
    ):
        assert rnd.key(seed).tolist() == words
        (found,) = interpret(trace(lambda: rnd.key(seed)))  # noqa: B023
        assert found.tolist() == words
    for dtype in ("int64", "int8", "uint32"):
        assert rnd.key(np.asarray(7, dtype)).tolist() == [0, 7]
    assert rnd.key(torch.tensor(-2)).tolist() == [0xFFFFFFFF, 0xFFFFFFFE]


def test_the_same_key_gives_the_same_numbers() -> None:
    key = torch.tensor([1, 2])
    first = rnd.normal(key, 5)
    rnd.normal(key, 7)
    assert torch.equal(rnd.normal(key, 5), first)
    assert torch.equal(key, torch.tensor([1, 2]))


def test_uniform_numbers_stay_below_the_end() -> None:
    key = torch.tensor([0, 1])
    coarse = rnd.uniform(key, 10_000, minval=1e6, maxval=1e6 + 1)  # rounding alone would give the end in places
    assert sorted(set(coarse.tolist())) == [1e6 + i / 16 for i in range(16)]
    assert rnd.uniform(key, 1 << 20, minval=0, maxval=3).max() < 3


def test_shapes_that_are_not_known() -> None:
    def draw(key: Any, x: Any) -> Any:
        n, m = x.shape
        first, second = rnd.split(key)[0], rnd.fold_in(key, n)
        noise = rnd.uniform(first, (n, m), dtype="float64") + rnd.uniform(second, x.shape, dtype="float64")
        rows = rnd.permutation(first, x)
        places = rnd.randint(second, (m,), 0, n)
        chosen = rnd.choice(first, n, 2, replace=False)
        return noise, rows, places, rnd.split(key, n), rnd.categorical(key, x), rnd.permutation(key, n + m), chosen

    program = trace(draw, KEY_SPEC, spec(("n", "m"), "float64"))
    verify(program)
    for n, m in ((3, 5), (2, 1)):
        x = np.sin(np.arange(n * m)).reshape(n, m)
        expected = interpret(program, KEY, x)
        for found, one in zip(run_torch(program, to_torch(KEY), to_torch(x)), expected, strict=True):
            np.testing.assert_array_equal(found, one)
        shapes = [(n, m), (n, m), (m,), (n, 2), (n,), (n + m,), (2,)]
        assert [one.shape for one in expected] == shapes
        assert sorted(expected[5].tolist()) == list(range(n + m))
        assert ((expected[2] >= 0) & (expected[2] < n)).all()
        np.testing.assert_array_equal(
            expected[0],
            np.asarray(rnd.uniform(np.asarray(rnd.split(KEY)[0]), (n, m), dtype="float64"))
            + np.asarray(rnd.uniform(rnd.fold_in(KEY, n), (n, m), dtype="float64")),
        )


def test_a_key_for_each_step_of_a_loop() -> None:
    def walk(key: Any, x: Any) -> Any:
        @plica.for_loop(0, x.shape[0])
        def loop(i: Any, total: Any) -> Any:
            return total + rnd.uniform(rnd.fold_in(key, i), x.shape, dtype="float64")

        return loop(x)

    program = trace(walk, KEY_SPEC, spec(("n",), "float64"))
    for n in (3, 5, 0):
        x = np.arange(float(n))
        expected = sum((rnd.uniform(rnd.fold_in(KEY, i), n, dtype="float64") for i in range(n)), start=x)
        np.testing.assert_array_equal(interpret(program, KEY, x)[0], expected)
        np.testing.assert_array_equal(run_torch(program, to_torch(KEY), to_torch(x))[0], expected)


def test_one_draw_is_one_equation() -> None:
    program = trace(lambda key: rnd.uniform(key, (1000,)), KEY_SPEC)
    assert [equation.op.name for equation in program.equations] == ["random_uniform"]
    assert len(trace(lambda key: rnd.normal(rnd.fold_in(key, 3), (10,)), KEY_SPEC).equations) == 4


def test_bounds_known_at_run_time_alone() -> None:
    low, high = np.asarray([0, 5, 5]), np.asarray([3, 5, 2])
    found = both(lambda key, a, b: rnd.randint(key, (200, 3), a, b), KEY, low, high)
    assert set(found[:, 0].tolist()) == {0, 1, 2}
    assert set(found[:, 1:].ravel().tolist()) == {5}  # nothing lies between them


K = torch.tensor([0, 0])
REFUSED = (
    (lambda: rnd.bits(K[:1]), ShapeError, "a key has the shape (2,), found i64[1]"),
    (lambda: rnd.bits(rnd.split(K)), ShapeError, "found i64[2,2]; take one of several keys with keys[i]"),
    (lambda: rnd.normal(0, (3,)), ShapeError, "found i64[]; make one with random.key(seed)"),
    (lambda: rnd.normal(K.double()), DTypeError, "a key is an array of int64, found f64[2]; make one with random.key"),
    (lambda: rnd.split(K.to(torch.int32)), DTypeError, "a key is an array of int64, found i32[2]"),
    (lambda: rnd.key(1 << 64), InputError, "has 64 bits, and 18446744073709551616 does not fit"),
    (lambda: rnd.key(torch.tensor(1.0)), DTypeError, "a seed is a scalar integer, found f32[]"),
    (lambda: rnd.key(K), DTypeError, "a seed is a scalar integer, found i64[2]"),
    (lambda: rnd.fold_in(K, K), DTypeError, "what is folded into a key is a scalar integer, found i64[2]"),
    (lambda: rnd.bits(K, 3, width=65), InputError, "from 1 to 64 random bits, found a width of 65"),
    (lambda: rnd.uniform(K, 3, dtype="int32"), DTypeError, "one of the dtypes float16, float32, float64, found int32"),
    (lambda: rnd.uniform(K, 3, minval=2, maxval=2), InputError, "minval is 2 and maxval 2"),
    (lambda: rnd.uniform(K, 3, minval=K), ShapeError, "(3)"),
    (lambda: rnd.normal(K, (-1,)), ShapeError, "negative size -1"),
    (lambda: rnd.normal(K, 2.5), ShapeError, "a size is a scalar integer, found float 2.5"),
    (lambda: rnd.randint(K, 3, 5, 4), InputError, "minval is 5 and maxval 4; minval must be below"),
    (lambda: rnd.randint(K, 3, -(1 << 62), 1 << 62), InputError, "is 2**63 or more"),
    (lambda: rnd.randint(K, 3, 0, K.double()), DTypeError, "the bounds of randint are integers, found f64[2]"),
    (lambda: rnd.randint(K, 3, 0, 4, dtype="float32"), DTypeError, "a dtype of integers, found float32"),
    (lambda: rnd.bernoulli(K, 1.5), InputError, "a probability lies between 0 and 1, found 1.5"),
    (lambda: rnd.bernoulli(K, float("nan")), InputError, "a probability lies between 0 and 1, found nan"),
    (lambda: rnd.bernoulli(K, K), DTypeError, "probabilities are floats, found i64[2]"),
    (lambda: rnd.bernoulli(K, K.double(), (3,)), ShapeError, "broadcast"),
    (lambda: rnd.categorical(K, K), DTypeError, "logits are an array of floats"),
    (lambda: rnd.categorical(K, torch.tensor(1.0)), ShapeError, "with at least one axis, found f32[]"),
    (lambda: rnd.categorical(K, torch.zeros(3, 4), shape=(2,)), ShapeError, "broadcast"),
    (lambda: rnd.choice(K, 3, 4, replace=False), InputError, "4 elements of 3 cannot be chosen without replacement"),
    (lambda: rnd.choice(K, 2, 4, replace=False, p=K.double()), InputError, "draws with replacement"),
    (lambda: rnd.choice(K, torch.zeros(2, 2)), ShapeError, "a number or an array of one axis, found f32[2,2]"),
    (lambda: rnd.choice(K, 3, p=K.double()), ShapeError, "broadcast"),
)


@grouped("row", REFUSED, ids=lambda row: row[2])
def test_misuse_is_refused(row) -> None:
    call, error, message = row
    with pytest.raises(error, match=re.escape(message)):
        call()


def test_too_many_to_choose_is_found_when_the_program_runs() -> None:
    program = trace(lambda key, x: rnd.choice(key, x, 3, replace=False), KEY_SPEC, spec(("n",), "float64"))
    assert interpret(program, KEY, np.zeros(3))[0].shape == (3,)
    for run in (
        lambda: interpret(program, KEY, np.zeros(2)),
        lambda: run_torch(program, to_torch(KEY), torch.zeros(2).double()),
    ):
        with pytest.raises((ShapeError, InputError)):
            run()


def test_every_function_has_a_name_and_documentation() -> None:
    names = "bernoulli bits categorical choice exponential fold_in gumbel key normal permutation randint split uniform"
    assert [name for name in dir(rnd) if not name.startswith("_")] == names.split()
    assert all(getattr(rnd, name).__doc__ for name in names.split())
