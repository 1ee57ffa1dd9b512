"""Folded Programs that run: once folded, when again, threads, updates, gradients, what is shared, and errors."""

import gc
import threading

import numpy as np
import pytest
import torch

import plica
import plica.numpy as pnp
from plica.constants.store.cache import SHARED
from plica.errors import DTypeError, InputError
from tests.harness.programs import assert_same
from tests.harness.work import count_calls


def _mlp(x, w1, b1, w2):
    hidden = pnp.tanh(x @ pnp.permute_dims(w1, (1, 0)) + b1 * 2.0)
    return hidden @ pnp.softmax(w2, axis=0)


MLP = plica.trace(_mlp, plica.spec(("b", 4)), plica.spec((5, 4)), plica.spec((5,)), plica.spec((5, 3)))


def _arrays(seed=0):
    draw = np.random.default_rng(seed)
    return {
        "x": draw.normal(size=(2, 4)).astype("float32"),
        "w1": draw.normal(size=(5, 4)).astype("float32"),
        "b1": draw.normal(size=5).astype("float32"),
        "w2": draw.normal(size=(5, 3)).astype("float32"),
    }


def _constants():
    return {name: value for name, value in _arrays().items() if name != "x"}


def _kept(run):
    """The values that a function keeps."""
    return [value for part in run._sources._snapshots.latest.parts for one in part.entries for value in one.values]


def _expected(given):
    return plica.interpret(MLP, *(given[name] for name in ("x", "w1", "b1", "w2")))[0]


def _tensors(given):
    return {name: torch.from_numpy(value.copy()) for name, value in given.items()}


@pytest.mark.parametrize("backend", ["torch", "interpreter"])
@pytest.mark.parametrize("form", ["runtime", "split"])
def test_constants_are_folded_at_the_first_call_and_not_at_the_second(backend, form) -> None:
    given = _arrays()
    w1 = given.pop("w1")
    folded = plica.fold_constants(MLP, compile_time={"w1": w1}, run_time=("b1", "w2"), form=form)
    run = folded.compile(backend=backend)
    first = run(given["x"], b1=given["b1"], w2=given["w2"])
    assert isinstance(first, np.ndarray)
    assert_same(first, _expected({**given, "w1": w1}))
    count = run.num_folds
    assert count == 3
    other = np.concatenate([given["x"]] * 2)
    assert run(other, b1=given["b1"], w2=given["w2"]).shape == (4, 3), "another batch size folds nothing"
    assert_same(run(given["x"]), first)
    assert run.num_folds == count
    assert "softmax" not in run.code


def test_changing_one_constant_folds_one_component() -> None:
    given = _arrays()
    run = plica.fold_constants(MLP, run_time=("w1", "b1", "w2")).compile()
    run(**given)
    new = _arrays(1)["w2"]
    run.update(w2=new)
    assert run.num_folds == 4
    assert_same(run(given["x"]), _expected({**given, "w2": new}))
    assert_same(run(given["x"], b1=_arrays(2)["b1"]), _expected({**given, "w2": new, "b1": _arrays(2)["b1"]}))
    assert run.num_folds == 5


def test_the_same_done_to_two_kept_values_of_one_constant_is_done_to_each() -> None:
    def halves(x, w):
        parts = pnp.softmax(w)
        first, second = parts[:3], parts[3:]
        return x + first, x + second, x @ pnp.exp(first), x @ pnp.exp(second)

    program = plica.trace(halves, plica.spec((3, 3)), plica.spec((6, 3)))
    run = plica.fold_constants(program, run_time=("w",)).compile()
    x, w = np.ones((3, 3), "float32"), np.arange(18, dtype="float32").reshape(6, 3) % 5
    for found, expected in zip(run(x, w=w), plica.interpret(program, x, w), strict=True):
        assert_same(found, expected)


def test_writes_that_torch_counts_and_any_write_to_a_small_array_are_seen() -> None:
    given = _tensors(_arrays())
    run = plica.fold_constants(MLP, run_time=("w1", "b1", "w2")).compile()
    run(**given)
    given["w2"].add_(1.0)
    given["b1"].data.add_(1.0)  # torch counts no version
    given["w1"].numpy()[0] = 2.0
    found = run(given["x"])
    assert_same(found.numpy(), _expected({name: one.numpy() for name, one in given.items()}))
    assert run.num_folds == 6


def test_a_large_tensor_is_told_by_its_version() -> None:
    program = plica.trace(lambda x, w: x @ pnp.softmax(w), plica.spec(("b", 200)), plica.spec((200, 200)))
    run = plica.fold_constants(program, run_time=("w",)).compile()
    x, w = torch.ones(1, 200), torch.randn(200, 200)
    run(x, w=w)
    w.mul_(2.0)
    assert torch.allclose(run(x), x @ torch.softmax(w, 1))
    assert run.num_folds == 2


def test_gradients_of_constants_go_through_the_whole_program() -> None:
    given = _tensors(_arrays())
    run = plica.fold_constants(MLP, run_time=("w1", "b1", "w2")).compile()
    given["w2"].requires_grad_()
    run(**given).sum().backward()
    assert run.num_folds == 0
    reference = given["w2"].detach().clone().requires_grad_()
    plica.jit(MLP)(given["x"], given["w1"], given["b1"], reference).sum().backward()
    assert torch.equal(given["w2"].grad, reference.grad)
    with torch.no_grad():
        kept = run(**given)
        run(**given)
    assert run.num_folds == 3
    assert not kept.requires_grad
    x = given["x"].requires_grad_()
    with torch.no_grad():
        given["w2"].requires_grad_(False)
    run(**given).sum().backward()
    assert x.grad is not None


def test_what_is_kept_is_no_view_of_a_constant_or_of_something_larger() -> None:
    program = plica.trace(
        lambda x, w: x @ pnp.permute_dims(w, (1, 0)) + pnp.sum(pnp.exp(w[0]), axis=0),
        plica.spec(("b", 4)),
        plica.spec((5, 4)),
    )
    run = plica.fold_constants(program, run_time=("w",)).compile()
    x, w = torch.ones(2, 4), torch.randn(5, 4)
    run(x, w=w)
    storages = {one.untyped_storage().data_ptr() for one in _kept(run)}
    assert w.untyped_storage().data_ptr() not in storages
    assert run.num_bytes == 5 * 4 * 4 + 4


def test_two_programs_of_one_model_share_what_they_fold() -> None:
    given = _tensors(_arrays())
    other = plica.trace(_mlp, plica.spec((7, 4)), plica.spec((5, 4)), plica.spec((5,)), plica.spec((5, 3)))
    runs = [plica.fold_constants(one, run_time=("w1", "b1", "w2")).compile() for one in (MLP, other)]
    runs[0](**given)
    runs[1](**{**given, "x": torch.ones(7, 4)})
    assert [run.num_folds for run in runs] == [3, 0]
    first, second = ([one.data_ptr() for one in _kept(run)] for run in runs)
    assert first == second


def test_what_was_shared_is_dropped_with_its_last_user() -> None:
    gc.collect()
    before = len(SHARED)
    run = plica.fold_constants(MLP, run_time=("w1", "b1", "w2")).compile()
    run(**_arrays(7))
    assert len(SHARED) == before + 3
    del run
    gc.collect()
    assert len(SHARED) == before


# Threads


def _together(count, work):
    barrier = threading.Barrier(count)
    found: list = [None] * count

    def one(place):
        barrier.wait()
        try:
            found[place] = work(place)
        except Exception as error:
            found[place] = error

    threads = [threading.Thread(target=one, args=(place,)) for place in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def test_many_first_callers_cause_one_fold() -> None:
    given = _arrays()
    run = plica.fold_constants(MLP, run_time=("w1", "b1", "w2")).compile()
    for one in _together(8, lambda _: run(**given)):
        assert_same(one, _expected(given))
    assert run.num_folds == 3


def test_an_error_reaches_all_who_wait_and_the_next_call_tries_again(monkeypatch) -> None:
    given = _arrays()
    run = plica.fold_constants(MLP, run_time=("w1", "b1", "w2")).compile()
    folded, waiting = run._sources._folded, threading.Event()
    attempts = []

    def failing(sources):
        attempts.append(sources)
        waiting.wait(5)
        raise MemoryError("no room")

    monkeypatch.setattr(run._sources, "_folded", failing)

    def call(place):
        if place == 0:
            threading.Timer(0.2, waiting.set).start()
        return run(**given)

    found = _together(6, call)
    assert all(isinstance(one, MemoryError) for one in found)
    assert len(attempts) == 1
    monkeypatch.setattr(run._sources, "_folded", folded)
    assert_same(run(**given), _expected(given))


def test_each_call_sees_all_old_or_all_new_constants() -> None:
    program = plica.trace(
        lambda x, v, w: x * 0.0 + (v * 2.0 - w * 2.0), plica.spec((3,)), plica.spec((3,)), plica.spec((3,))
    )
    folded = plica.fold_constants(program, run_time=("v", "w"))
    run = folded.compile()
    x = torch.zeros(3)
    run(x, v=torch.zeros(3), w=torch.zeros(3))
    wrong = []

    def work(place):
        for step in range(20):
            if place == 0:
                value = torch.full((3,), float(step))
                run.update(v=value, w=value)
            elif run(x).any():
                wrong.append(step)

    errors = [one for one in _together(16, work) if one is not None]
    assert not errors
    assert not wrong


# CacheEntry


def test_updates_never_write_over_what_is_kept_or_given() -> None:
    def fn(x, w):
        kept = pnp.sin(w)
        return kept.at[0].set(x), kept.at[1:].add(x) + w.at[2].set(x)

    program = plica.trace(fn, plica.spec((), "float64"), plica.spec((4,), "float64"))
    run = plica.fold_constants(program, run_time=("w",)).compile()
    w = torch.arange(4.0, dtype=torch.float64)
    expected = plica.interpret(program, np.float64(7.0), w.numpy().copy())
    for _ in range(3):
        for found, one in zip(run(torch.tensor(7.0, dtype=torch.float64), w=w), expected, strict=True):
            assert_same(found.numpy(), one)
    assert w.tolist() == [0.0, 1.0, 2.0, 3.0]
    assert run.num_folds == 1


# Errors


def test_sizes_of_constants_that_are_folded_away_are_checked_still() -> None:
    program = plica.trace(lambda x, w: x * pnp.sum(w), plica.spec(("n",)), plica.spec(("n",)))
    policy = plica.FoldPolicy(max_growth=None)
    run = plica.fold_constants(program, run_time=("w",), policy=policy).compile()
    assert run(torch.ones(3), w=torch.ones(3)).tolist() == [3.0] * 3
    with pytest.raises(InputError, match=r"argument x has shape \(4,\), but the constants were folded for n = 3"):
        run(torch.ones(4))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda run, x: run(x), "the constant 'w1' was not given yet; pass w1=... at the first call"),
        (lambda run, x: run(w1=x), "the program takes x:f32.*, of which w1, b1, w2 may be left out once folded"),
        (lambda run, x: run(x, x=x), "found 1 by position, 'x'"),
        (lambda run, x: run(x, v=x), "found 1 by position, 'v'"),
        (lambda run, x: run.update(x=x), "update: 'x' is no constant; there are w1, b1, w2"),
        (lambda run, x: run(**{**_arrays(), "w1": x}), r"argument w1 has shape \(2, 4\), but the program expects"),
        (
            lambda run, x: run(x, **{**_constants(), "b1": [1.0]}),
            "argument b1 is of type list, but the program expects b1:f32",
        ),
        (
            lambda run, x: run([x], **_constants()),
            "argument x is of type list, but the program expects x:.*; give an array",
        ),
    ],
)
def test_what_does_not_fit_is_refused(call, message) -> None:
    run = plica.fold_constants(MLP, run_time=("w1", "b1", "w2")).compile()
    with pytest.raises(InputError, match=message):
        call(run, _arrays()["x"])


@pytest.mark.parametrize("backend", ["torch", "interpreter"])
def test_what_is_no_number_is_refused_and_what_was_folded_stays(backend) -> None:
    program = plica.trace(lambda x, w: x * pnp.exp(w), plica.spec((3,)), plica.spec(()))
    run = plica.fold_constants(program, run_time="w").compile(backend)
    x = np.ones(3, "float32")
    assert run(x, w=0).tolist() == [1.0] * 3
    for given, error, message in (
        ("two", InputError, "argument w is of type str, but the program expects w:f32"),
        (None, InputError, "argument w is of type NoneType, but the program expects w:f32"),
        (2j, DTypeError, "argument w is 2j, but the program expects f32"),
    ):
        with pytest.raises(error, match=message):
            run(x, w=given)
        with pytest.raises(error, match=message):
            run.update(w=given)
        assert run(x).tolist() == [1.0] * 3
    assert run.num_folds == 1


def test_captured_arrays_must_be_known() -> None:
    program = plica.parse("{ lambda w:f32[3] ; x:f32[3] . let a:f32[3] = exp w b:f32[3] = add x a in (b,) }")
    with pytest.raises(InputError, match="the program captures w, whose values are not known; give them in"):
        plica.fold_constants(program).compile()
    run = plica.fold_constants(program, compile_time={"w": torch.zeros(3)}).compile()
    assert run(torch.zeros(3)).tolist() == [1.0] * 3


def test_a_parameter_of_a_module_is_read_again_where_it_is_replaced() -> None:
    layer = torch.nn.Linear(3, 2)
    compiled = plica.jit(lambda x: x @ pnp.permute_dims(pnp.exp(layer.weight), (1, 0)))
    compiled(torch.ones(1, 3))
    with torch.no_grad():
        run = plica.fold_constants(compiled.bound).compile()
        x = torch.ones(1, 3)
        assert torch.allclose(run(x), x @ layer.weight.exp().T)
        layer.weight.mul_(0.5)
        assert torch.allclose(run(x), x @ layer.weight.exp().T)
        assert run.num_folds == 2


# Decorated functions


@pytest.mark.parametrize("backend", ["torch", "interpreter"])
def test_constants_of_a_decorated_function(backend) -> None:
    offset = np.full(3, 0.5, "float32")

    @plica.jit(constants=("weights",), abstracted_axes=(("b",), None), backend=backend)
    def model(x, weights):
        return x @ pnp.softmax(weights["w"]) + weights["b"] * 2.0 + pnp.exp(pnp.asarray(offset))

    x = np.ones((2, 3), "float32")
    weights = {"b": np.ones(3, "float32"), "w": np.zeros((3, 3), "float32")}
    expected = x @ np.full((3, 3), 1 / 3) + 2.0 + np.exp(offset)
    assert np.allclose(model(x, weights), expected)
    assert isinstance(model(x, weights), np.ndarray)
    assert np.allclose(model(np.ones((4, 3), "float32"), weights), expected[0])
    function = model._last.executor.function
    assert function.num_folds == 3
    assert "softmax" not in model.code or backend == "interpreter"
    weights["b"] += 1.0
    assert np.allclose(model(x, weights), expected + 2.0)
    assert function.num_folds == 4
    assert model.num_compilations == 1


def test_a_decorated_function_has_a_policy() -> None:
    array = np.ones((200, 200), "float32")
    policy = plica.FoldPolicy(check="checksum")
    run = plica.jit(lambda x, w: x @ pnp.softmax(w) * 200, constants="w", policy=policy)
    x = np.ones((1, 200), "float32")
    run(x, array)
    array[:, 0] = 100.0
    assert np.allclose(run(x, array)[0, :2], [200 * 200, 0.0])


def test_a_name_that_a_decorated_function_does_not_have_is_refused() -> None:
    with pytest.raises(
        InputError, match="constants must be positional arguments that are not static, found 'v'; the function has x, w"
    ):
        plica.jit(lambda x, w: x + w, constants=("v",))(torch.ones(2), torch.ones(2))
    with pytest.raises(
        InputError, match="constants must be positional arguments that are not static, found 'n'; the function has x\\."
    ):
        plica.jit(lambda x, n: x * n, constants="n", static_argnums=1)(torch.ones(2), 3)


@pytest.mark.parametrize("static", [0, -3])
def test_a_constant_behind_a_static_argument_is_folded(static) -> None:
    run = plica.jit(lambda n, w, x: pnp.exp(w) * n + x, constants="w", static_argnums=static)
    assert run(3, torch.zeros(2), torch.ones(2)).tolist() == [4.0, 4.0]
    assert "exp" not in run.code


def test_a_constant_that_is_left_out_is_its_default() -> None:
    run = plica.jit(lambda x, w=None: x if w is None else x * pnp.exp(w), constants="w")
    assert run(torch.ones(2)).tolist() == run(torch.ones(2), torch.zeros(2)).tolist() == [1.0, 1.0]


def test_a_folded_function_that_is_traced_gives_its_whole_program() -> None:
    given = _tensors(_arrays())
    run = plica.fold_constants(MLP, run_time=("w1", "b1", "w2")).compile()
    outer = plica.jit(lambda x, w1, b1, w2: run(x, w1, b1, w2) * 2.0)
    assert torch.allclose(outer(**given), 2 * run(**given))


def test_numbers_may_be_constant_and_compared_by_value() -> None:
    program = plica.trace(lambda x, n: x * pnp.sum(pnp.ones([n])), plica.spec((3,), "float64"), int)
    run = plica.fold_constants(program, run_time=("n",), policy=plica.FoldPolicy(max_growth=None)).compile()
    assert run(torch.ones(3, dtype=torch.float64), 1000).tolist() == [1000.0] * 3
    count = run.num_folds
    assert run(torch.ones(3, dtype=torch.float64), 10**3).tolist() == [1000.0] * 3
    assert run.num_folds == count
    assert run(torch.ones(3, dtype=torch.float64), 7).tolist() == [7.0] * 3


# What torch does not count

OPTIMIZERS = {
    "AdamW": lambda parameters: torch.optim.AdamW(parameters, lr=0.1, fused=True),
    "Adam": lambda parameters: torch.optim.Adam(parameters, lr=0.1, fused=True),
    "SGD": lambda parameters: torch.optim.SGD(parameters, lr=0.1, fused=True),
    "Adagrad": lambda parameters: torch.optim.Adagrad(parameters, lr=0.1, fused=True),
}
WIDE = plica.trace(lambda x, w: x @ pnp.softmax(w), plica.spec(("b", 200)), plica.spec((200, 200)))


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_step_of_a_fused_optimizer_is_noticed(name) -> None:
    weight = torch.nn.Parameter(torch.randn(200, 200, generator=torch.Generator().manual_seed(0)))
    run = plica.fold_constants(WIDE, run_time=("w",)).compile()
    x = torch.ones(1, 200)
    with torch.no_grad():
        run(x, w=weight)
    optimizer = OPTIMIZERS[name]([weight])
    (run(x) ** 2).sum().backward()
    optimizer.step()
    with torch.no_grad():
        assert torch.allclose(run(x), x @ torch.softmax(weight, 1))


def test_inference_tensors_are_told_by_their_entries() -> None:
    with torch.inference_mode():
        weight, x = torch.randn(200, 200), torch.ones(1, 200)
        run = plica.fold_constants(WIDE, run_time=("w",)).compile()
        run(x, w=weight)
        weight.mul_(2.0)
        assert torch.allclose(run(x), x @ torch.softmax(weight, 1))


@pytest.mark.parametrize("make", [torch.from_numpy, np.asarray])
def test_a_checksum_notices_every_write(make) -> None:
    array = np.random.default_rng(0).normal(size=(200, 200)).astype("float32")
    x = np.ones((1, 200), "float32")
    run = plica.fold_constants(WIDE, run_time=("w",), policy=plica.FoldPolicy(check="checksum")).compile()
    weight = make(array)
    run(x, w=weight)
    array[:] = 0.0
    assert np.allclose(run(x), 1.0)
    with pytest.raises(InputError, match="check is 'never'; give 'version' or 'checksum'"):
        plica.FoldPolicy(check="never")


@pytest.mark.parametrize("make", [torch.zeros, lambda size: np.zeros(size, "float32")], ids=["torch", "numpy"])
def test_a_call_asks_little_of_each_constant(make) -> None:
    def calls(count):
        names = [f"w{place}" for place in range(count)]
        equations = "".join(f"e{name}:f32[3] = exp {name} x{name}:f32[3] = multiply x e{name} " for name in names)
        arguments, results = (" ".join(f"{name}:f32[3]" for name in names), ", ".join(f"x{name}" for name in names))
        program = plica.parse(f"{{ lambda ; x:f32[3] {arguments} . let {equations}in ({results},) }}")
        run, x = plica.fold_constants(program, run_time=names).compile(), torch.ones(3)
        run(x, **{name: make(3) for name in names})
        return count_calls(lambda: run(x))

    assert (calls(60) - calls(10)) / 50 < 6, "its memory, its entries, and the operation that reads it"
