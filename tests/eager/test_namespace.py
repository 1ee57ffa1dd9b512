"""`plica.numpy` called on arrays: which library runs it, what it makes of numbers, and what it refuses."""
# ruff: noqa: ARG005 - the tables hold functions of two arrays

import re
from pathlib import Path

import numpy as np
import pytest
import torch

import plica
import plica.numpy as pnp
from plica.errors import DTypeError, ShapeError, TraceError, UnsupportedError
from plica.ir.dtypes import DType
from tests.harness.programs import assert_same
from tests.harness.standard import NAMES, VERSION


def test_arrays_by_keyword_are_found() -> None:
    x, w = np.ones((2, 3), "float32"), np.ones((4, 3), "float32")
    assert_same(pnp.log_matmul_exp(x, weight=w), pnp.log_matmul_exp(x, w))
    assert_same(pnp.lookup(table=w[None], index=np.asarray([[1]])), pnp.lookup(w[None], np.asarray([[1]])))


def test_equal_calls_with_other_settings_are_other_programs() -> None:
    x = np.ones((2, 3), "float32")
    assert [pnp.sum(x, axis=axis).shape for axis in (0, 1, None)] == [(3,), (2,), ()]
    assert pnp.add(x, 1).dtype == np.float32
    assert pnp.add(x > 0, 1).dtype == np.int64
    assert pnp.add(x > 0, 1.0).dtype == np.float64
    assert pnp.reshape(x, (3, 2)).shape == pnp.reshape(x, [3, 2]).shape == (3, 2)


def test_numbers_alone_make_tensors() -> None:
    for found, expected in (
        (pnp.exp(0.0), torch.tensor(1.0, dtype=torch.float64)),
        (pnp.add(1, 2), torch.tensor(3)),
        (pnp.divide(1, 2), torch.tensor(0.5, dtype=torch.float64)),
        (pnp.sqrt(4), torch.tensor(2.0, dtype=torch.float64)),
        (pnp.logical_not(True), torch.tensor(False)),
        (pnp.sum(2.5), torch.tensor(2.5, dtype=torch.float64)),
        (pnp.where(True, 1, 2), torch.tensor(1)),
        (pnp.astype(1, "float32"), torch.tensor(1.0)),
    ):
        assert torch.equal(found, expected)
        assert found.dtype == expected.dtype


def test_making_arrays_makes_tensors() -> None:
    for found, expected in (
        (pnp.zeros((2, 3)), torch.zeros(2, 3, dtype=torch.float64)),
        (pnp.ones(0, dtype="int8"), torch.ones(0, dtype=torch.int8)),
        (pnp.arange(3), torch.arange(3)),
        (pnp.arange(0.5, 2), torch.tensor([0.5, 1.5], dtype=torch.float64)),
        (pnp.full((), 2, dtype=pnp.float32), torch.tensor(2.0)),
        (pnp.linspace(0, 1, 3), torch.tensor([0.0, 0.5, 1.0], dtype=torch.float64)),
        (pnp.eye(2, dtype="int64"), torch.eye(2, dtype=torch.int64)),
        (pnp.zeros(2, device="cpu", dtype="bool"), torch.zeros(2, dtype=torch.bool)),
    ):
        assert torch.equal(found, expected)
        assert found.dtype == expected.dtype


def test_asarray_of_numbers() -> None:
    for obj, dtype in (
        (True, torch.bool),
        ([1, 2], torch.int64),
        ([[1, 2.5], [3, 4]], torch.float64),
        ([1, 2j], torch.complex128),
        ((), torch.float64),
    ):
        found = pnp.asarray(obj)
        assert found.dtype == dtype
        assert found.tolist() == np.asarray(obj).tolist()
    assert pnp.asarray([1, 2], dtype="float32").dtype == torch.float32
    with pytest.raises(DTypeError, match="asarray needs numbers and arrays"):
        pnp.asarray(["a"])


def test_asarray_of_numbers_beyond_64_bits_takes_the_dtype_that_holds_them() -> None:
    for run in (lambda call: call(), lambda call: plica.jit(call)()):
        assert run(lambda: pnp.asarray(2**63, dtype="float64")).item() == 2.0**63
        assert run(lambda: pnp.asarray([1, 2**63], dtype="float64")).tolist() == [1.0, 2.0**63]
        assert run(lambda: pnp.asarray([2**63, 1], dtype="uint64")).tolist() == [2**63, 1]
        assert run(lambda: pnp.asarray([1 << 70], dtype="float32")).tolist() == [2.0**70]


NUMBERS_REFUSED = (
    (2**63, None, DTypeError, "asarray: the number 9223372036854775808 does not fit int64"),
    ([1, 2**63], None, DTypeError, "asarray: the number 9223372036854775808 does not fit int64"),
    (1 << 70, None, DTypeError, "asarray: the number 1180591620717411303424 does not fit int64"),
    (300, "uint8", DTypeError, "asarray: the number 300 does not fit uint8"),
    ([[1], [-1]], "uint8", DTypeError, "asarray: the number -1 does not fit uint8"),
    (float("inf"), "int64", DTypeError, "asarray: the number inf does not fit int64"),
    ([0.0, float("nan")], "int32", DTypeError, "asarray: the number nan does not fit int32"),
    ([1j], "float64", DTypeError, "asarray: complex numbers do not fit float64"),
    ([[1], [1, 2]], None, ShapeError, "asarray: nested lists must have one length"),
)


@pytest.mark.parametrize(("obj", "dtype", "error", "message"), NUMBERS_REFUSED)
def test_asarray_refuses_numbers_that_the_dtype_does_not_have(obj, dtype, error, message) -> None:
    for run in (lambda call: call(), lambda call: plica.jit(call)()):
        with pytest.raises(error, match=rf"test_namespace\.py:\d+: {message}"):
            run(lambda: pnp.asarray(obj, dtype=dtype))


def test_asarray_keeps_the_library() -> None:
    x = np.ones(2, "float32")
    t = torch.ones(2)
    assert pnp.asarray(x) is x
    assert pnp.asarray(t) is t
    assert pnp.asarray(x, copy=True) is not x
    assert pnp.asarray(t, dtype=pnp.int32).dtype == torch.int32
    assert pnp.asarray([x, x * 2]).tolist() == [[1.0, 1.0], [2.0, 2.0]]
    assert isinstance(pnp.asarray([[t, t]], dtype="float64"), torch.Tensor)


def test_from_dlpack_shares_memory() -> None:
    x = np.zeros(2)
    shared, own = pnp.from_dlpack(x), pnp.from_dlpack(x, copy=True)
    x[0] = 1.0
    assert shared.tolist() == [1.0, 0.0]
    assert own.tolist() == [0.0, 0.0]


def test_results_have_the_structure_that_the_standard_gives_them() -> None:
    seen = []
    plica.trace(lambda x: seen.extend([pnp.meshgrid(x), pnp.broadcast_arrays(x, x), pnp.unstack(x)]), plica.spec(2))
    arrays = np.arange(2), torch.arange(2)
    lists = [function(array) for function in (pnp.meshgrid, pnp.broadcast_arrays) for array in arrays]
    assert [type(one) for one in (*lists, *seen[:2])] == [list] * 6  # tuples from version 2025.12 on
    assert [type(one) for one in (pnp.unstack(arrays[0]), pnp.unstack(arrays[1]), seen[2])] == [tuple] * 3
    assert len(pnp.unstack(np.zeros((1, 2)))) == 1
    assert pnp.unstack(np.zeros((0, 2))) == ()
    assert [one.shape for one in pnp.broadcast_arrays(np.zeros((2, 1)), np.zeros(3))] == [(2, 3)] * 2


def test_gradients_flow_through_eager_calls() -> None:
    x = torch.tensor([[-torch.inf, 0.0]], requires_grad=True)
    pnp.logsumexp(x, axis=1).sum().backward()
    assert x.grad.tolist() == [[0.0, 1.0]]
    y = torch.tensor([3.0, 1.0, 2.0], requires_grad=True)
    weights = torch.tensor([1.0, 10.0, 100.0])
    (pnp.sort(y, descending=True) * weights).sum().backward()
    assert y.grad.tolist() == [1.0, 100.0, 10.0]


SMOOTH = (
    # functions of x:f64[2,3], y:f64[2,3]
    lambda x, y: pnp.real(pnp.conj(x + 1j * y) * pnp.exp(1j * y)),
    lambda x, y: pnp.imag(pnp.exp(1j * x) * y),
    lambda x, y: pnp.angle(x + 1j * y),
    lambda x, y: pnp.expm1(x + 1j * y).real,
    lambda x, y: pnp.abs(pnp.log1p(x + 1j * y)),
    lambda x, y: pnp.var(x * y, axis=1, correction=1),
    lambda x, y: pnp.std(x, correction=0.5) * y,
    lambda x, y: pnp.diff(x, axis=1, n=2, prepend=y),
    lambda x, y: pnp.cumulative_prod(x, axis=0, include_initial=True),
    lambda x, y: pnp.repeat(x, torch.tensor([2, 0, 1]), axis=1),
    lambda x, y: pnp.tile(x, (2, 2)),
    lambda x, y: pnp.roll(x, (1, -1), axis=(0, 1)) * y,
    lambda x, y: pnp.triu(x, k=1) + pnp.tril(y),
    lambda x, y: pnp.meshgrid(x[0], y[1])[0],
    lambda x, y: pnp.clip(x, y - 0.3, y + 0.2),
    lambda x, y: pnp.pow(x, 3) + pnp.pow(2.0, y) + pnp.pow(x, y),
    lambda x, y: pnp.sort(x, axis=0) + pnp.sort(y, descending=True),
    lambda x, y: pnp.unstack(x, axis=1)[2],
)


@pytest.mark.parametrize("number", range(len(SMOOTH)))
def test_derivatives_are_limits_of_differences(number: int) -> None:
    x = torch.tensor([[0.3, 1.7, 0.9], [1.1, 0.6, 2.3]], dtype=torch.float64, requires_grad=True)
    y = torch.tensor([[0.8, 0.4, 1.5], [1.3, 0.7, 1.9]], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(SMOOTH[number], (x, y))


def test_numpy_and_torch_do_not_mix() -> None:
    for call in (
        lambda: pnp.add(np.ones(2), torch.ones(2)),
        lambda: pnp.concat([torch.ones(2), np.ones(2)]),
        lambda: pnp.asarray([torch.ones(2), np.ones(2)]),
        lambda: pnp.take(torch.ones(2), np.asarray([1])),
    ):
        with pytest.raises(TraceError, match=r"test_namespace.py:\d+: \w+: expected arrays of one library") as caught:
            call()
        assert "numpy.ndarray" in str(caught.value)
        assert "torch.Tensor" in str(caught.value)
        assert "plica.numpy.from_dlpack" in str(caught.value)


def test_types_without_a_name_here_are_refused() -> None:
    with pytest.raises(DTypeError, match="float8_e5m2"):
        pnp.exp(torch.ones(2).to(torch.float8_e5m2))


# Dtypes


def test_result_type() -> None:
    for arguments, expected in (
        ((pnp.float32, pnp.float64), "float64"),
        ((np.ones(2, "int8"), pnp.uint8), "int16"),
        ((torch.ones(2), 1), "float32"),
        ((pnp.int32, 2.5), "float64"),
        ((pnp.int32, np.float32(1.0)), "float32"),
        ((torch.float32, 1j), "complex64"),
        ((1, 2), "int64"),
        ((pnp.bool,), "bool"),
        ((pnp.float64, pnp.complex64), "complex128"),
    ):
        assert pnp.result_type(*arguments) == expected, arguments
    with pytest.raises(DTypeError, match="at least one array, dtype or number"):
        pnp.result_type()
    with pytest.raises(DTypeError, match="the number 300 does not fit uint8"):
        pnp.result_type(pnp.uint8, 300)


@pytest.mark.parametrize("make", [np.ones, torch.ones], ids=["numpy", "torch"])
def test_dtypes_of_arrays_are_those_of_the_namespace(make) -> None:
    seen = []
    for dtype in (pnp.float64, pnp.int32, pnp.bool, pnp.complex64, pnp.uint16):
        found = pnp.asarray(make(2), dtype=dtype)
        assert found.dtype == dtype
        assert dtype == found.dtype
        assert found.dtype != pnp.float16
        assert pnp.astype(found, found.dtype).dtype == dtype
        plica.trace(lambda x: seen.append(x.dtype) or x, plica.spec(2, found.dtype))
        assert seen[-1] == found.dtype
    assert pnp.ones(2).dtype == pnp.float64


def test_can_cast() -> None:
    assert pnp.can_cast(pnp.float32, pnp.float64)
    assert not pnp.can_cast(pnp.float64, pnp.float32)
    assert pnp.can_cast(np.ones(2, "uint8"), "int16")
    assert not pnp.can_cast(torch.int64, "int32")


def test_isdtype() -> None:
    kinds = {
        "bool": ("bool",),
        "signed integer": ("int8", "int64"),
        "unsigned integer": ("uint8", "uint64"),
        "integral": ("int8", "int64", "uint8", "uint64"),
        "real floating": ("float32", "float64"),
        "complex floating": ("complex64",),
        "numeric": ("int8", "int64", "uint8", "uint64", "float32", "float64", "complex64"),
    }
    for kind, members in kinds.items():
        for dtype in ("bool", "int8", "int64", "uint8", "uint64", "float32", "float64", "complex64"):
            assert pnp.isdtype(pnp.result_type(dtype), kind) == (dtype in members), (dtype, kind)
    assert pnp.isdtype(torch.float32, pnp.float32)
    assert pnp.isdtype(np.float32, ("integral", pnp.float32))
    assert not pnp.isdtype(pnp.int8, (pnp.int16, "real floating"))
    with pytest.raises(DTypeError, match="'floating' is no kind of dtypes; there are bool, signed integer"):
        pnp.isdtype(pnp.float32, "floating")


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
def test_finfo(dtype: str) -> None:
    found, expected = pnp.finfo(dtype), np.finfo(dtype)
    for name in ("bits", "eps", "max", "min", "smallest_normal"):
        assert getattr(found, name) == getattr(expected, name)
    assert found.dtype == {"complex64": "float32", "complex128": "float64"}.get(dtype, dtype)
    assert pnp.finfo(np.ones(2, dtype)) == found
    with pytest.raises(DTypeError, match="found int32; see iinfo"):
        pnp.finfo(pnp.int32)


@pytest.mark.parametrize("dtype", ["int8", "int64", "uint8", "uint64"])
def test_iinfo(dtype: str) -> None:
    found, expected = pnp.iinfo(dtype), np.iinfo(dtype)
    assert (found.bits, found.max, found.min, found.dtype) == (expected.bits, expected.max, expected.min, dtype)
    with pytest.raises(DTypeError, match="found float32; see finfo"):
        pnp.iinfo(torch.ones(2))


def test_inspection() -> None:
    assert pnp.__array_api_version__ == VERSION
    info = pnp.__array_namespace_info__()
    assert set(info.capabilities()) == {"boolean indexing", "data-dependent shapes", "max dimensions"}
    assert info.default_device() is None
    assert info.devices() == [None]
    defaults = info.default_dtypes(device=None)
    assert defaults == {
        "real floating": DType.FLOAT64,
        "complex floating": DType.COMPLEX128,
        "integral": DType.INT64,
        "indexing": DType.INT64,
    }
    assert str(pnp.zeros(1).dtype) == "torch.float64"
    assert str(pnp.arange(1).dtype) == "torch.int64"
    assert info.dtypes(kind="unsigned integer") == {f"uint{bits}": f"uint{bits}" for bits in (8, 16, 32, 64)}
    assert set(info.dtypes()) == {dtype.value for dtype in DType if not dtype.is_storage}
    assert not pnp.isdtype(pnp.int4, ("integral", "numeric"))
    assert set(info.dtypes(kind=("bool", "complex floating"))) == {"bool", "complex64", "complex128"}


def test_broadcast_shapes() -> None:
    assert pnp.broadcast_shapes((2, 1), (3,), ()) == (2, 3)
    with pytest.raises(ShapeError, match="2 against 3"):
        pnp.broadcast_shapes((2,), (3,))


def test_inspection_while_tracing_records_nothing() -> None:
    seen = []

    def function(x, y):
        seen.append((pnp.result_type(x, x.shape[0], 1.5), pnp.isdtype(x.dtype, "real floating")))
        return pnp.ones(pnp.broadcast_shapes(x.shape, (1, 1))), pnp.zeros(pnp.broadcast_shapes(y.shape, x.shape))

    program = plica.trace(function, plica.spec(("n",)), plica.spec(("n", 1)))
    assert seen == [("float32", True)]
    assert [equation.op.name for equation in program.equations] == ["full", "full"]
    assert [str(one.type) for one in program.results] == ["f64[1,n]", "f64[n,n]"]


# Places


def test_devices_are_none_of_a_program() -> None:
    def function(x):
        return pnp.ones_like(x, device=x.device), pnp.zeros(2, device="cuda:0")

    with pytest.raises(UnsupportedError, match="runs wherever its arguments are"):
        plica.trace(function, plica.spec(("n",)))


def test_calls_out_of_scope_are_refused() -> None:
    kept = []
    plica.trace(lambda x: kept.append(x) or x, plica.spec(("n",)))
    with pytest.raises(TraceError, match="is used after"):
        pnp.sum(kept[0])


# The documentation says what there is and what is missing

PAGE = (Path(__file__).parents[2] / "docs/numpy.md").read_text()


def _listed(heading: str) -> set[str]:
    """The names in the list under a heading."""
    section = PAGE.split(f"## {heading}\n")[1].split("\n## ")[0]
    items = [line for line in section.splitlines() if line.startswith("* ")]
    return {name for line in items for name in re.findall(r"`([\w.]+)`", line)}


def _has(name: str) -> bool:
    found = pnp
    for part in name.split("."):
        if not hasattr(found, part):
            return False
        found = getattr(found, part)
    return True


def test_the_page_lists_what_is_missing_of_the_standard() -> None:
    assert {name for name in NAMES if not _has(name)} == _listed("What is missing")


def test_the_page_lists_what_is_there_beside_the_standard() -> None:
    assert set(dir(pnp)) - set(NAMES) == _listed("Beside the standard")


@pytest.mark.parametrize(("dtype", "copy"), [(None, None), ("float64", None), (None, True)])
def test_asarray_of_a_tensor_keeps_its_gradient(dtype, copy) -> None:
    x = torch.ones(2, requires_grad=True)
    pnp.sum(pnp.asarray(x, dtype=dtype, copy=copy) * 3).backward()
    assert x.grad.tolist() == [3.0, 3.0]
