"""`jit(backend="native")`: arguments and results, errors, gradients, captured arrays, threads."""

import importlib.util
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch

import plica
import plica.numpy as pnp
from plica.errors import BoundsError, InputError, UnsupportedError, ZeroDivisorError
from tests.harness.circuits import pixels

EXAMPLES = Path(__file__).parents[2] / "examples"


@plica.jit(backend="native", abstracted_axes={0: "n"})
def recurrence(x, u):
    @plica.for_loop(1, x.shape[0])
    def loop(i, x):
        return x.at[i].set(x[i - 1] * 0.9 + u[i])

    return loop(x)


def by_numpy(x, u):
    x = x.copy()
    for i in range(1, len(x)):
        x[i] = x[i - 1] * 0.9 + u[i]
    return x


@pytest.mark.parametrize("size", [0, 1, 2, 1000])
def test_one_compilation_serves_all_sizes(size):
    x, u = np.random.default_rng(size).normal(size=(2, size))
    before = x.copy()
    np.testing.assert_array_equal(recurrence(x, u), by_numpy(x, u))
    np.testing.assert_array_equal(x, before)
    assert recurrence.num_compilations == 1


def test_results_are_of_the_kind_of_the_arguments():
    x = torch.arange(4.0, dtype=torch.float64)
    found = plica.jit(recurrence.__wrapped__, backend="native", abstracted_axes={0: "n"})(x, x)
    assert isinstance(found, torch.Tensor)
    assert found.dtype == torch.float64
    np.testing.assert_array_equal(found.numpy(), by_numpy(x.numpy(), x.numpy()))

    @plica.jit(backend="native")
    def count(n: int):
        return pnp.arange(n), n + 1

    array, number = count(3)
    assert array.tolist() == [0, 1, 2]
    assert number.shape == ()
    assert number.item() == 4


def test_arrays_with_gaps_and_of_another_order_of_bytes_are_taken():
    whole = np.random.default_rng(0).normal(size=(6, 2))
    expected = by_numpy(whole[::2, 0].copy(), whole[1::2, 1].copy())
    np.testing.assert_array_equal(recurrence(whole[::2, 0], whole[1::2, 1]), expected)
    swapped = [one.astype(one.dtype.newbyteorder(">")) for one in (whole[::2, 0], whole[1::2, 1])]
    np.testing.assert_array_equal(
        plica.jit(recurrence.__wrapped__, backend="native", abstracted_axes={0: "n"})(*swapped), expected
    )


def test_arguments_of_torch_are_not_copied():
    @plica.jit(backend="native", abstracted_axes={0: "n"})
    def address_and_first(x):
        return x[0]

    x = torch.ones(3, dtype=torch.float64)
    view = x.numpy()
    assert address_and_first(x).item() == 1.0
    view[0] = 7.0
    assert address_and_first(x).item() == 7.0


# Errors


@plica.jit(backend="native", abstracted_axes={0: "n"})
def entry(x, i):
    return x[i] * 2


@pytest.mark.parametrize("place", [3, -4, 2**40])
def test_an_index_outside_its_axis_is_an_error_that_names_the_line(place):
    with pytest.raises(BoundsError, match=rf"{Path(__file__).name}:\d+: index {place} does not lie within axis 0 of"):
        entry(np.ones(3), place)
    assert entry(np.ones(3), -3) == 2.0


def test_errors_are_those_of_the_torch_backend():
    def parts(x, start, stop, by):
        return x[start:stop] // by

    x = np.arange(5)
    for arguments, kind in (
        ((x, 1, 6, 1), BoundsError),
        ((x, 3, 2, 1), BoundsError),
        ((x, 0, 5, 0), ZeroDivisorError),
    ):
        messages = []
        for backend in ("torch", "native"):
            run = plica.jit(parts, backend=backend, abstracted_axes=({0: "n"}, None, None, None))
            assert run(x, 1, 4, 2).tolist() == [0, 1, 1]
            with pytest.raises(kind) as caught:
                run(*arguments)
            messages.append(str(caught.value))
        assert messages[0] == messages[1]


def test_a_negative_size_is_an_error():
    @plica.jit(backend="native")
    def ones(n: int):
        return pnp.ones([n - 1])

    assert ones(3).tolist() == [1.0, 1.0]
    with pytest.raises(InputError, match=r"the size n-1 = -1 is negative; take 0 or more"):
        ones(0)


def test_sizes_that_disagree_are_an_error():
    with pytest.raises(InputError, match=r"shape \(3,\).*expected 2"):
        recurrence(np.ones(2), np.ones(3))

    @plica.jit(backend="native", abstracted_axes=({0: "n"}, {0: "m"}))
    def add(x, y):
        return x + y

    assert add(np.ones(2), np.ones(2)).tolist() == [2.0, 2.0]
    with pytest.raises(InputError, match=r"an array has shape \(1,\), but \(2,\) is needed"):
        add(np.ones(2), np.ones(1))


def test_an_integer_beyond_64_bits_is_an_error():
    assert entry(np.ones(3), 0) == 2.0
    with pytest.raises(InputError, match=r"argument i is 9223372036854775808, which does not fit int64"):
        entry(np.ones(3), 2**63)


def test_a_loop_of_step_0_is_an_error():
    @plica.jit(backend="native")
    def count(step: int):
        return plica.for_loop(0, 10, step, lambda i, total: total + i, 0)

    assert count(3) == 18
    with pytest.raises(InputError, match="a loop from 0 to 10 has step 0"):
        count(0)


def test_a_run_that_fails_gives_its_memory_back():
    @plica.jit(backend="native", abstracted_axes={0: "n"})
    def fails(x, place):
        @plica.for_loop(0, 3)
        def grow(i, a):
            return pnp.concat([a, a * i])

        return pnp.cumulative_sum(grow(x))[place]

    x = np.ones(1000)
    assert fails(x, 0) == 1.0
    for _ in range(50):
        with pytest.raises(BoundsError):
            fails(x, 10**6)


def test_complex_numbers_and_transforms():
    function = plica.jit(lambda x, y: (pnp.fft.ifft(x) * y, y), backend="native", abstracted_axes={0: "n"})
    for size in (1, 6, 7):
        x = np.exp(1j * np.arange(size))
        found, number = function(x, 2 + 1j)
        np.testing.assert_allclose(found, np.fft.ifft(x) * (2 + 1j), rtol=1e-13, atol=1e-14)
        assert number == 2 + 1j
    with pytest.raises(InputError, match="ifft of no points along an axis has no result; transform at least one"):
        function(np.zeros(0, complex), 1j)


def test_what_has_no_loop_nest_is_refused_by_name():
    with pytest.raises(UnsupportedError, match="no loop nests for int4"):
        plica.jit(lambda x: x, backend="native")(np.ones(2, "int4"))


# Gradients and captured arrays


def test_gradients_run_in_torch():
    x = torch.linspace(0, 1, 5, dtype=torch.float64, requires_grad=True)
    u = torch.ones(5, dtype=torch.float64)
    native = plica.jit(recurrence.__wrapped__, backend="native", abstracted_axes={0: "n"})
    native(x, u).sum().backward()
    expected = sum(0.9**power for power in range(5))
    assert x.grad.tolist() == pytest.approx([expected, 0, 0, 0, 0])
    with torch.no_grad():
        assert not native(x, u).requires_grad


def test_captured_arrays_are_read_at_each_call():
    weight = np.ones(2)
    parameter = torch.nn.Parameter(torch.ones(2, dtype=torch.float64))

    @plica.jit(backend="native", abstracted_axes={0: "n"})
    def scaled(x):
        return x * weight * pnp.asarray(parameter)

    x = np.ones((3, 2))
    assert scaled(x).tolist() == [[1.0, 1.0]] * 3
    weight[1] = 2.0
    with torch.no_grad():
        parameter[0] = 5.0
    assert scaled(x).tolist() == [[5.0, 2.0]] * 3
    scaled(torch.ones(2, 2, dtype=torch.float64)).sum().backward()
    assert parameter.grad.tolist() == [2.0, 4.0]


def test_a_program_runs_natively():
    program = plica.parse(
        "{ lambda w:f64[3] ; {b:i64[]} x:f64[b,3] . let "
        "a:f64[b,3] = multiply x w c:f64[b] = sum[axis=(1,) keepdims=False] a in (c,) }"
    )
    run = plica.jit(program, consts={"w": np.array([1.0, 2.0, 3.0])}, backend="native")
    assert run(np.ones((2, 3))).tolist() == [6.0, 6.0]
    assert run(np.ones((0, 3))).shape == (0,)


def test_a_circuit_is_called_in_native_code():
    circuit = plica.compile(pixels(2, 3, values=4))

    @plica.jit(backend="native", abstracted_axes={0: "b"})
    def loss(rows):
        return -pnp.mean(circuit(rows))

    for rows in (1, 7):
        x = torch.randint(4, (rows, 4))
        with torch.no_grad():
            assert loss(x).item() == pytest.approx(-circuit(x).mean().item(), rel=1e-5)
    loss(x).backward()
    assert all(parameter.grad is not None for parameter in circuit.parameters())


# Memory


def test_an_update_in_a_loop_is_written_over_the_array():
    recurrence(np.ones(2), np.ones(2))
    assert "allocate" not in recurrence.code


def test_an_array_that_grows_has_spare_capacity():
    @plica.jit(backend="native")
    def squares(n: int):
        @plica.for_loop(0, n, preserve_dimensions=False)
        def grow(i, a):
            return pnp.concat([a, pnp.reshape(i * i, (1,))])

        return grow(pnp.zeros(0, dtype="int64"))

    for size in (0, 1, 5, 1000):
        assert squares(size).tolist() == [place * place for place in range(size)]
    assert "with room for" in squares.code


def test_two_arrays_that_change_places_are_not_confused():
    @plica.jit(backend="native", abstracted_axes=({0: "n"}, {0: "n"}, None))
    def swapped(a, b, turns):
        return plica.for_loop(0, turns, 1, lambda _, a, b: (b, a + 1), a, b)

    for size in (1, 3, 1000):
        a, b = np.zeros(size), np.full(size, 10.0)
        for turns in (0, 1, 2, 5):
            x, y = a, b
            for _ in range(turns):
                x, y = y, x + 1
            found = swapped(a, b, turns)
            np.testing.assert_array_equal(found[0], x)
            np.testing.assert_array_equal(found[1], y)


def test_large_products_are_those_of_numpy():
    @plica.jit(backend="native", abstracted_axes=({0: "n", 1: "k"}, {0: "k", 1: "m"}))
    def product(a, b):
        return a @ b, a.T @ a

    for rows, inner, columns in ((3, 4, 5), (60, 40, 50), (0, 4, 5), (40, 0, 50)):
        a, b = np.random.default_rng(0).normal(size=(2, 60, 60))
        a, b = a[:rows, :inner], b[:inner, :columns]
        found = product(a, b)
        np.testing.assert_allclose(found[0], a @ b, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(found[1], a.T @ a, rtol=1e-12, atol=1e-12)


# Examples and threads


def load(name: str) -> ModuleType:
    """The module of an example, which is no package."""
    found = importlib.util.spec_from_file_location(f"native_{name}", EXAMPLES / f"{name}.py")
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


def test_viterbi_is_that_of_the_torch_backend():
    example = load("viterbi")
    native = plica.jit(example.viterbi.__wrapped__, backend="native")
    generator = np.random.default_rng(0)
    for steps, batch, states, symbols in ((1, 1, 2, 3), (40, 3, 4, 5), (7, 0, 2, 2), (60, 5, 1, 3)):
        model = example.random_model(states, symbols, seed=steps)
        seen = generator.integers(symbols, size=(steps, batch))
        length = generator.integers(1, steps + 1, size=batch)
        path, score = native(*model, seen, length)
        expected = example.viterbi(*model, seen, length)
        np.testing.assert_array_equal(path, expected[0])
        np.testing.assert_allclose(score, expected[1], rtol=1e-12)
    assert native.num_compilations == 1


def test_the_kalman_filter_is_that_of_the_torch_backend():
    example = load("kalman")
    native = plica.jit(example.kalman.__wrapped__, backend="native")
    for steps in (1, 7, 30):
        _, observed = example.simulate(steps, acceleration=2.0, blur=0.3, missing=0.4, seed=steps)
        for one, other in zip(native(observed, 2.0, 0.3), example.kalman(observed, 2.0, 0.3), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9)
    assert native(np.zeros((0, 2)), 2.0, 0.3)[1].shape == (0, 4)


def test_the_sieve_is_that_of_the_torch_backend():
    example = load("growing")
    native = plica.jit(example.first_primes.__wrapped__, backend="native")
    for count in (1, 2, 10, 300):
        np.testing.assert_array_equal(native(count), example.first_primes(count))


def test_threads_call_one_function():
    def work(seed):
        generator = np.random.default_rng(seed)
        for size in generator.integers(0, 3000, 20):
            x, u = generator.normal(size=(2, size))
            np.testing.assert_array_equal(recurrence(x, u), by_numpy(x, u))
        return True

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(work, range(8)))
