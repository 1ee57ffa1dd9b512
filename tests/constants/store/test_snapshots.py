"""When constants are folded again: every way to write to one, what torch does not count, threads, what was released."""

import threading
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from torch.autograd import forward_ad

import plica
import plica.numpy as pnp
from plica.errors import InputError
from plica.ir.program import Bound
from plica.tracing.scope import Reference

N = 150  # large enough that a tensor is not told by its entries
WIDE = plica.trace(lambda x, w: x @ pnp.softmax(w), plica.spec(("b", N)), plica.spec((N, N)))
NARROW = plica.trace(lambda x, w: x * pnp.exp(w), plica.spec(("b", 4)), plica.spec((4,)))
X = torch.ones(1, N)


def _large(seed=0):
    return torch.randn(N, N, generator=torch.Generator().manual_seed(seed))


def _folded(program=WIDE, **options):
    return plica.fold_constants(program, run_time=("w",)).compile(**options)


def _is_right(run, weight):
    with torch.no_grad():
        return torch.allclose(run(X), X @ torch.softmax(weight.detach().clone(), 1), atol=1e-6)


# Writes


def _storage_swapped(weight):
    weight.data = torch.empty(0)
    weight.data = _large(1)  # where the old memory was, as likely as not


def _storage_resized(weight):
    storage = weight.untyped_storage()
    num_bytes = storage.nbytes()
    storage.resize_(0)
    storage.resize_(num_bytes)
    with torch.no_grad():
        weight.copy_(_large(1))


def _resized(weight):
    weight.requires_grad_(False)
    weight.resize_(0)
    weight.resize_(N, N)
    weight.copy_(_large(1))


def _in_inference_mode(weight):
    with torch.inference_mode():
        weight.mul_(2.0)


def _there_and_back(weight):
    module = torch.nn.Module()
    module.weight = weight
    module.double()
    weight.data.mul_(2.0)
    module.float()


def _loaded(weight, **options):
    module = torch.nn.Module()
    module.weight = weight
    module.load_state_dict({"weight": _large(1)}, **options)


def _trained(weight):
    module = torch.nn.Module()
    module.inner = torch.nn.Module()
    module.inner.weight = weight
    module.eval()
    module.train()
    weight.data.mul_(2.0)
    module.eval()


def _evaluated_again(weight):
    module = torch.nn.Module()
    module.weight, module.training = weight, False  # as after a call before the function's
    weight.data.mul_(2.0)
    module.eval()


def _swapped(weight):
    torch.utils.swap_tensors(weight, torch.nn.Parameter(_large(1)))


def _set(weight):
    weight.requires_grad_(False)
    weight.set_(_large(1))


WRITES = {
    "view": lambda weight: weight.detach()[3:5].mul_(2.0),
    "detached": lambda weight: weight.detach().mul_(2.0),
    "copy_": lambda weight: weight.detach().copy_(_large(1)),
    "set_": _set,
    "resize_": _resized,
    "resized storage": _storage_resized,
    "data": _storage_swapped,
    "swap_tensors": _swapped,
    "inference mode": _in_inference_mode,
    "to": _there_and_back,
    "load_state_dict": _loaded,
    "train": _trained,
    "eval again": _evaluated_again,
    "foreach": lambda weight: torch._foreach_mul_([weight.detach()], 2.0),
}


@pytest.mark.parametrize("name", WRITES)
def test_a_write_is_noticed(name) -> None:
    weight, run = torch.nn.Parameter(_large()), _folded()
    with torch.no_grad():
        run(X, w=weight)
    before = weight.detach().clone()
    WRITES[name](weight)
    assert not torch.equal(before, weight)
    assert _is_right(run, weight)


MODULE_METHODS: dict[str, Callable[[torch.nn.Module], object]] = {
    "to": lambda module: module.to(torch.float32),
    "float": lambda module: module.float(),
    "load_state_dict": lambda module: module.load_state_dict({"0.bias": torch.zeros(N)}, strict=False),
    "assigned": lambda module: module.load_state_dict({"0.bias": torch.zeros(N)}, strict=False, assign=True),
    "train": lambda module: module.train(not module.training),
}


@pytest.mark.parametrize("name", MODULE_METHODS)
def test_what_a_module_does_with_all_its_tensors_has_them_looked_at(name) -> None:
    layer, run = torch.nn.Linear(N, N), _folded()
    module, weight = torch.nn.Sequential(layer), layer.weight
    with torch.no_grad():
        run(X, w=weight)
        MODULE_METHODS[name](module)
        assert _is_right(run, weight)
        assert run.num_folds == 1, "it is as it was"
        weight.data.mul_(2.0)  # torch counts no version
        MODULE_METHODS[name](module)
        assert _is_right(run, weight)
        assert run.num_folds == 2


def test_modules_without_tensors_yet_and_with_other_ones_are_left_as_they_are() -> None:
    class Own(torch.nn.Linear):
        def parameters(self):  # type: ignore[override]
            return iter(())

    module = torch.nn.Sequential(torch.nn.LazyLinear(3), torch.nn.Linear(3, 3, device="meta"), Own(3, 3))
    module.sparse = torch.nn.Parameter(torch.eye(3).to_sparse())
    _folded()(X, w=_large())
    module.eval().double().load_state_dict(module.state_dict())
    torch.optim.SGD(torch.nn.LazyLinear(3).parameters(), lr=0.1).step()
    assert not module.training
    assert module.sparse.dtype == torch.float64


@pytest.mark.parametrize("assign", [True, False])
def test_what_load_state_dict_gives_to_a_holder_is_read(assign) -> None:
    layer = torch.nn.Linear(N, N, bias=False)
    captured = replace(WIDE, consts=(WIDE.arguments[1],), inputs=WIDE.inputs[:-1])
    with torch.no_grad():
        run = plica.fold_constants(Bound(captured, (Reference(layer, "weight"),))).compile()
        run(X)
        layer.load_state_dict({"weight": _large(1)}, assign=assign)
        assert _is_right(run, layer.weight)
        assert run.num_folds == 2


OWNERS = {
    "a detached tensor of a parameter": lambda parameter: parameter.detach(),
    "a part of a parameter": lambda parameter: parameter.detach()[:N],
}


@pytest.mark.parametrize("name", OWNERS)
def test_a_fused_step_is_noticed_in_what_shares_the_memory_of_a_parameter(name) -> None:
    parameter = torch.nn.Parameter(torch.cat([_large(), _large(1)])[: N if "detached" in name else 2 * N].clone())
    weight, run = OWNERS[name](parameter), _folded()
    run(X, w=weight)
    optimizer = torch.optim.AdamW([parameter], lr=0.1, fused=True)
    parameter.grad = torch.ones_like(parameter)
    optimizer.step()
    assert _is_right(run, weight)
    assert run.num_folds == 2


def test_a_step_elsewhere_and_a_repeated_mode_fold_nothing() -> None:
    module, other, run = torch.nn.Linear(N, N), torch.nn.Linear(N, N), _folded()
    with torch.no_grad():
        run(X, w=module.eval().weight)
    other(X).sum().backward()
    torch.optim.SGD(other.parameters(), lr=0.1).step()
    other.eval()
    module.eval()
    assert _is_right(run, module.weight)
    assert run.num_folds == 1


def test_many_stamps_are_forgotten_together(monkeypatch) -> None:
    from plica.backend.torch import sources

    monkeypatch.setattr(sources._Stamps, "MOST", 2)
    weight = torch.nn.Parameter(_large())
    sources.state_of(weight)
    sources._WRITES.stamp([weight])
    before = sources.state_of(weight)
    others = [torch.zeros(2) for _ in range(8)]
    sources._WRITES.stamp(others)
    assert len(sources._WRITES.of_storage) <= 2
    assert sources.state_of(weight) != before, "what was forgotten counts as written to"


def test_memory_that_is_given_to_another_tensor_is_not_taken_for_the_old_one() -> None:
    run = _folded()
    for seed in range(6):
        weight = _large(seed)
        run(X, w=weight)
        assert _is_right(run, weight)
        del weight


def test_constants_without_entries() -> None:
    program = plica.trace(lambda x, w: x + pnp.sum(pnp.exp(w)), plica.spec((2,)), plica.spec((0,)))
    for make in (torch.from_numpy, np.copy):
        run = plica.fold_constants(program, run_time=("w",)).compile()
        assert run(torch.ones(2), w=make(np.zeros(0, "float32"))).tolist() == [1.0, 1.0]


def test_sources_that_are_views_of_one_another() -> None:
    program = plica.trace(
        lambda x, v, w: x @ pnp.softmax(v) + x @ pnp.tanh(w), plica.spec((1, N)), plica.spec((N, N)), plica.spec((N, N))
    )
    run = plica.fold_constants(program, run_time=("v", "w")).compile()
    base = _large()
    run(X, v=base, w=base.T)
    base[0].mul_(2.0)
    assert torch.allclose(run(X), X @ torch.softmax(base, 1) + X @ torch.tanh(base.T), atol=1e-5)
    run(X, v=base.T, w=base)
    assert torch.allclose(run(X), X @ torch.softmax(base.T, 1) + X @ torch.tanh(base), atol=1e-5)


def test_numbers_are_compared_by_what_they_are() -> None:
    program = plica.trace(
        lambda x, n: x * pnp.copysign(pnp.ones(3, dtype="float64"), pnp.exp(n) * n), plica.spec((3,), "float64"), float
    )
    run = plica.fold_constants(program, run_time=("n",)).compile()
    x = torch.ones(3, dtype=torch.float64)
    assert [run(x, n=number)[0].item() for number in (0.0, -0.0, 0.0)] == [1.0, -1.0, 1.0]
    run(x, n=float("nan"))
    count = run.num_folds
    run(x, n=float("nan"))
    assert run.num_folds == count


# The mode of the first caller


def test_what_is_folded_in_inference_mode_serves_training() -> None:
    run, weight = _folded(), _large()
    with torch.inference_mode():
        run(X, w=weight)
    x = X.clone().requires_grad_()
    run(x).sum().backward()
    assert x.grad is not None
    assert torch.allclose(x.grad, torch.softmax(weight, 1).sum(1)[None])
    assert run.num_folds == 1


def test_what_is_folded_under_autocast_has_its_own_precision() -> None:
    program = plica.trace(lambda x, w: x * pnp.sum(w @ w), plica.spec((3,)), plica.spec((8, 8)))
    weight, x = torch.randn(8, 8, generator=torch.Generator().manual_seed(0)), torch.ones(3)
    run = _folded(program)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        run(x, w=weight)
    assert torch.equal(run(x), _folded(program)(x, w=weight.clone()))


def test_derivatives_forward_and_transforms_reach_constants() -> None:
    run, x, weight = _folded(NARROW), torch.ones(2, 4), torch.randn(4, generator=torch.Generator().manual_seed(0))
    run(x, w=weight)
    expected = torch.exp(weight).expand(2, 4)
    tangent = torch.func.jvp(lambda w: run(x, w=w), (weight,), (torch.ones(4),))[1]
    assert torch.allclose(tangent, expected)
    with forward_ad.dual_level():
        dual = run(x, w=forward_ad.make_dual(weight, torch.ones(4)))
        assert torch.allclose(forward_ad.unpack_dual(dual).tangent, expected)
    assert torch.allclose(torch.func.grad(lambda w: run(x, w=w).sum())(weight), expected.sum(0))
    stacked = torch.stack([weight, 2 * weight])
    assert torch.allclose(torch.func.vmap(lambda w: run(x, w=w))(stacked)[1], x * torch.exp(2 * weight))
    assert torch.equal(run(x, w=weight), x * torch.exp(weight))


def test_a_constant_that_was_given_with_gradients_need_not_be_given_again() -> None:
    run, weight = _folded(NARROW), torch.zeros(4, requires_grad=True)
    run(torch.ones(1, 4), w=weight)
    assert run(torch.ones(1, 4)).requires_grad
    with torch.no_grad():
        assert run(torch.ones(1, 4)).tolist() == [[1.0] * 4]
    weight.requires_grad_(False)
    assert not run(torch.ones(1, 4)).requires_grad


# Results


@pytest.mark.parametrize("backend", ["torch", "interpreter"])
def test_a_caller_may_write_to_results(backend) -> None:
    def fn(x, w):
        kept = pnp.exp(w)
        row, back = pnp.permute_dims(kept, (1, 0))[0], pnp.flip(kept + 0.0 * x[0, 0], axis=0)
        branch = plica.cond(pnp.sum(x) > 0, lambda: kept, lambda: x)
        return x * 1.5, kept, kept * 1.0, row, branch, pnp.flip(kept, axis=0), back

    program = plica.trace(fn, plica.spec((4, 4)), plica.spec((4, 4)))
    run = plica.fold_constants(program, run_time=("w",), policy=plica.FoldPolicy(max_growth=0)).compile(backend)
    x, w = np.ones((4, 4), "float32"), np.zeros((4, 4), "float32")
    for result in run(x, w=w):
        result += 5.0
    assert [result.max() for result in run(x)] == [1.5, *[1.0] * 6]


# Sizes


@pytest.mark.parametrize("new", [{"b": torch.ones(1)}, {"w": torch.ones(1, 4)}])
def test_constants_that_do_not_fit_each_other_are_refused(new) -> None:
    program = plica.trace(
        lambda x, w, b: x @ pnp.permute_dims(w, (1, 0)) + b * 2.0,
        plica.spec(("n", 4)),
        plica.spec(("m", 4)),
        plica.spec(("m",)),
    )
    policy = plica.FoldPolicy(max_growth=None)
    run = plica.fold_constants(program, run_time=("w", "b"), policy=policy).compile()
    run(torch.ones(1, 4), w=torch.ones(3, 4), b=torch.ones(3))
    with pytest.raises(InputError, match=r"argument b has shape \(.,\), but the program expects b:f32\[m\] with m = ."):
        run(torch.ones(1, 4), **new)
    assert run(torch.ones(1, 4)).shape == (1, 3)


# Threads


def test_a_caller_that_waits_is_not_told_the_error_of_other_constants(monkeypatch) -> None:
    run, started, waiting = _folded(), threading.Event(), threading.Event()
    folded = run._sources._folded

    def slow(sources):
        started.set()
        waiting.wait(5)
        return folded(sources)

    monkeypatch.setattr(run._sources, "_folded", slow)
    weight = _large()
    with ThreadPoolExecutor(2) as threads:
        bad = threads.submit(lambda: run(X, w=torch.zeros(N, N + 1)))
        started.wait(5)
        good = threads.submit(lambda: run(X, w=weight))
        threading.Timer(0.05, waiting.set).start()
        assert isinstance(bad.exception(10), InputError)
        assert torch.allclose(good.result(10), X @ torch.softmax(weight, 1))


def test_threads_with_constants_of_their_own_each_get_their_own() -> None:
    run = _folded()
    weights = [_large(seed) for seed in range(4)]

    def work(weight):
        expected = X @ torch.softmax(weight, 1)
        return all(torch.allclose(run(X, w=weight), expected, atol=1e-6) for _ in range(8))

    with ThreadPoolExecutor(4) as threads:
        assert all(threads.map(work, weights))


def test_a_constant_that_is_written_to_all_the_time_does_not_keep_a_call_from_ending() -> None:
    run, weight, ended = _folded(NARROW), torch.zeros(4), threading.Event()

    def write():
        while not ended.is_set():
            weight.add_(1e-6)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(10):
            assert run(torch.ones(1, 4), w=weight).shape == (1, 4)
    finally:
        ended.set()
        writer.join()


# Known constants, and released ones

TWO = plica.trace(
    lambda x, v, w, u: x @ pnp.softmax(v) + x @ pnp.tanh(w + u),
    plica.spec(("b", 4)),
    plica.spec((4, 4)),
    plica.spec((4, 4)),
    plica.spec((4, 4)),
)


def _four(seed):
    return torch.randn(4, 4, generator=torch.Generator().manual_seed(seed))


def _value(x, v, w, u):
    return x @ torch.softmax(v, 1) + x @ torch.tanh(w + u)


def test_the_form_split_folds_what_is_known_when_it_is_compiled() -> None:
    x, v, w, u = map(_four, range(4))
    fold = partial(plica.fold_constants, TWO, compile_time={"v": v}, run_time=("w", "u"))
    run = fold(form="split").compile()
    assert run.num_folds == 1
    assert torch.allclose(run(x, w=w, u=u), _value(x, v, w, u))
    assert run.num_folds == 2
    v.mul_(2.0)
    assert torch.allclose(run(x), _value(x, v, w, u))
    assert run.num_folds == 3
    late = fold(form="split").compile()
    v.mul_(2.0)
    assert torch.allclose(late(x, w=w, u=u), _value(x, v, w, u)), "written to between compiling and the first call"
    assert fold().compile().num_folds == 0


MIXED = plica.trace(
    lambda x, v, w: x @ (pnp.softmax(v) + w), plica.spec(("b", 4)), plica.spec((4, 4)), plica.spec((4, 4))
)


def _mixed(x, v, w):
    return x @ (torch.softmax(v, 1) + w)


@pytest.mark.parametrize("release", [False, True])
def test_what_is_known_is_folded_by_compile_though_it_is_handed_on_to_what_is_not(release) -> None:
    x, v, w = map(_four, range(3))
    expected = _mixed(x, v, w)
    folded = plica.fold_constants(MIXED, compile_time={"v": v}, run_time=("w",), form="split")
    run = folded.compile(release_sources=release, cache=plica.FoldCache())
    assert run.num_folds == 1
    if release:
        alive = weakref.ref(v)
        del v, folded
        assert alive() is None, "all that is made of it is made"
    assert torch.allclose(run(x, w=w), expected)
    assert run.num_folds == 2
    assert run.num_bytes == 64, "what was handed on is let go"
    run(x)
    assert run.num_folds == 2
    if release:
        with pytest.raises(InputError, match="the value folded from v is needed again, but v was released"):
            run.update(w=w + 1.0)
        return
    run.update(w=w + 1.0)
    assert run.num_folds == 4
    assert torch.allclose(run(x), _mixed(x, v, w + 1.0))
    v.mul_(2.0)
    assert torch.allclose(run(x), _mixed(x, v, w + 1.0))


@pytest.mark.parametrize("form", ["runtime", "split"])
@pytest.mark.parametrize("make", [torch.clone, lambda one: np.array(one)])
def test_released_sources_are_let_go(form, make) -> None:
    x, v, w, u = map(make, map(_four, range(4)))
    expected = _value(*map(torch.as_tensor, (x, v, w, u)))
    folded = plica.fold_constants(TWO, compile_time={"v": v}, run_time=("w", "u"), form=form)
    run = folded.compile(release_sources=True)
    run(x, w=w, u=u)
    alive = [weakref.ref(one) for one in (v, w, u)]
    new_w, new_u = make(w), make(u)
    del v, w, u, folded
    assert [one() for one in alive] == [None] * 3
    found = run(x)
    assert type(found) is type(x)
    assert torch.allclose(torch.as_tensor(found), expected)
    with pytest.raises(InputError, match=r"w, u is needed again, but u was released once folded; give it again \(u="):
        run.update(w=new_w)
    run.update(w=new_w, u=new_u)
    assert torch.allclose(torch.as_tensor(run(x)), expected)


def test_a_released_source_that_somebody_has_is_watched_still() -> None:
    x, v, w, u = map(_four, range(4))
    run = plica.fold_constants(TWO, run_time=("v", "w", "u")).compile(release_sources=True)
    run(x, v=v, w=w, u=u)
    v.mul_(2.0)
    assert torch.allclose(run(x), _value(x, v, w, u))
    run(x, v=v, w=w, u=u)
    assert run.num_folds == 3
    v.requires_grad_()
    assert run(x).requires_grad
    del w
    with pytest.raises(InputError, match="the whole program is needed again, but w was released"):
        run(x)
    with torch.no_grad():
        assert run(x).shape == (4, 4)


def test_a_constant_that_is_read_at_each_call_is_not_released() -> None:
    program = plica.trace(lambda x, w: x @ w + pnp.exp(w), plica.spec((4, 4)), plica.spec((4, 4)))
    run = plica.fold_constants(program, run_time=("w",)).compile(release_sources=True)
    x, w = _four(0), _four(1)
    run(x, w=w.clone())
    assert torch.allclose(run(x), x @ w + torch.exp(w))


@pytest.mark.parametrize("form", ["runtime", "split"])
def test_a_captured_array_that_nothing_reads_is_released(form) -> None:
    program = plica.parse("{ lambda v:f32[3] ; x:f32[3] w:f32[3] . let a:f32[3] = exp w b:f32[3] = add x a in (b,) }")
    bound = Bound(program, (torch.zeros(3),))
    folded = plica.fold_constants(bound, compile_time={"w": torch.zeros(3)}, form=form)
    run = folded.compile(release_sources=True)
    del bound, folded
    for _ in range(2):
        assert run(torch.zeros(3)).tolist() == [1.0] * 3


def test_a_captured_array_is_released_too() -> None:
    program = plica.parse("{ lambda w:f32[3] ; x:f32[3] . let a:f32[3] = exp w b:f32[3] = add x a in (b,) }")
    array = torch.zeros(3)
    run = plica.fold_constants(program, compile_time={"w": array}).compile(release_sources=True)
    x = torch.zeros(3)
    run(x)
    alive = weakref.ref(array)
    del array
    assert alive() is None
    assert run(x).tolist() == [1.0] * 3
    with pytest.raises(InputError, match="the whole program is needed again, but w was released"):
        plica.jit(lambda x: run(x))(x)


# Any sequence of these

HANDED = plica.trace(
    lambda x, v, w, u: x @ (pnp.softmax(v) + w) + x @ pnp.tanh(w + u), plica.spec(("b", 4)), *[plica.spec((4, 4))] * 3
)


def _handed(x, v, w, u):
    return _mixed(x, v, w) + x @ torch.tanh(w + u)


def _moved(one):
    new = one.detach().clone() * 0.5
    one.data = torch.empty(0)
    one.data = new


def _stepped(one):
    parameter = torch.nn.Parameter(one.detach())
    parameter.grad = torch.ones_like(parameter)
    torch.optim.SGD([parameter], lr=0.1, fused=True).step()


STEPS = {
    "mul_": lambda one: one.mul_(1.5),
    "view": lambda one: one[1].add_(0.5),
    "transposed": lambda one: one.T.mul_(0.75),
    "data": lambda one: setattr(one, "data", one.detach() * 1.25),
    "storage": _moved,
    "inference": _in_inference_mode,
    "step": _stepped,
    "nothing": torch.Tensor.numel,
}


@settings(max_examples=30, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from("vwu"), st.sampled_from(list(STEPS)), st.sampled_from(("leave", "give", "update", "clone"))
        ),
        max_size=8,
    ),
    st.sampled_from((None, 0, 70, 130)),
    st.booleans(),
    st.sampled_from(((TWO, _value), (HANDED, _handed))),
)
def test_any_sequence_of_writes_gives_what_the_whole_program_gives(steps, limit, release, case) -> None:
    program, value = case
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("plica.backend.torch.sources.SMALL", 0)
        x, arrays = _four(9), {name: _four(place) for place, name in enumerate("vwu")}
        folded = plica.fold_constants(program, compile_time={"v": arrays["v"]}, run_time=("w", "u"), form="split")
        run = folded.compile(cache=plica.FoldCache(limit), release_sources=release)
        run(x, w=arrays["w"], u=arrays["u"])
        for name, write, how in steps:
            if how == "clone":
                arrays[name] = arrays[name].clone()
            STEPS[write](arrays[name])
            if how == "update":
                run.update(**{name: arrays[name]})
            given_ = {name: arrays[name]} if how in ("give", "clone") else {}
            assert torch.allclose(run(x, **given_), value(x, **arrays), atol=1e-5, equal_nan=True)


def test_a_refused_constant_is_not_kept_where_gradients_are_asked_for() -> None:
    program = plica.trace(
        lambda x, w, s: x @ pnp.exp(w) * s, *[plica.spec(shape) for shape in (("b", 5), (5, 6), (6,))]
    )
    run = plica.fold_constants(program, run_time=("w", "s")).compile()
    x, scale = torch.ones(2, 5), torch.ones(6, requires_grad=True)
    expected = run(x, w=torch.ones(5, 6), s=scale)
    with pytest.raises(InputError, match=r"argument w has shape \(4, 6\), but the program expects w:f32\[5,6\]"):
        run(x, w=torch.ones(4, 6))
    assert torch.equal(run(x), expected)


@pytest.mark.parametrize("make", [partial(np.ones, dtype=np.float32), torch.ones])
def test_constants_that_are_written_to_during_a_fold_do_not_stand_for_those_before(make, monkeypatch) -> None:
    run = _folded(NARROW, backend="torch" if make is torch.ones else "interpreter")
    x, weight = make((1, 4)), make((4,))
    constants = run._sources
    own = constants._make

    def fold_while_another_thread_writes(*given):
        weight[...] = 2.0
        return own(*given)

    monkeypatch.setattr(constants, "_make", fold_while_another_thread_writes)
    run(x, w=weight)
    monkeypatch.setattr(constants, "_make", own)
    for value in (1.0, 2.0):
        weight[...] = value
        assert np.allclose(run(x, w=weight), np.exp(value))
