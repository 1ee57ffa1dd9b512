"""Einstein sums of Tucker layers: the blocked way, the plain way and torch's own agree, with every derivative."""

from itertools import product

import pytest
import torch

from plica.backend.torch import contract
from plica.backend.torch.contract import einsum, tucker
from plica.backend.torch.kernels import log_einsum_exp
from tests.harness.together import grouped


def vectors(count: int, folds: int = 3, rows: int = 5, units: int = 4) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    shape = (folds, rows, units)
    return [torch.rand(shape, generator=generator, dtype=torch.float64).requires_grad_() for _ in range(count)]


@pytest.fixture(autouse=True)
def blocks_of_few_rows(monkeypatch) -> None:
    monkeypatch.setattr(contract, "_FEW_ROWS", 0)


def core(count: int, folds: int = 3, sums: int = 2, units: int = 4) -> torch.Tensor:
    generator = torch.Generator().manual_seed(1)
    return torch.rand(folds, sums, *[units] * count, generator=generator, dtype=torch.float64).requires_grad_()


EQUATIONS = {2: "fbi,foij,fbj->fbo", 3: "fbi,foijk,fbj,fbk->fbo", 4: "fbi,foijkl,fbj,fbk,fbl->fbo"}
BLOCKS = pytest.mark.parametrize("block", [8, 300, 1400, 1 << 19], ids=["a row", "rows", "folds", "whole"])

LAYOUTS = {
    "as it is": lambda one: one,
    "last two axes turned": lambda one: one.mT.contiguous().mT,
    "second axis last": lambda one: one.movedim(1, -1).contiguous().movedim(-1, 1),
    "every second number": lambda one: one.repeat_interleave(2, -1)[..., ::2],
    "one fold for all": lambda one: one[:1].expand_as(one),
}


@BLOCKS
@pytest.mark.parametrize("count", EQUATIONS)
def test_it_is_the_einstein_sum(monkeypatch, block: int, count: int) -> None:
    monkeypatch.setattr(contract, "_BLOCK", block)
    first, *others = inputs = vectors(count)
    weight = core(count)
    found = einsum(EQUATIONS[count], first, weight, *others)
    expected = torch.einsum(EQUATIONS[count], first, weight, *others)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=0)
    ones = torch.autograd.grad(found.square().sum(), [*inputs, weight])
    twos = torch.autograd.grad(expected.square().sum(), [*inputs, weight])
    torch.testing.assert_close(ones, twos, rtol=1e-12, atol=0)


@BLOCKS
def test_derivatives_of_every_kind(monkeypatch, block: int) -> None:
    monkeypatch.setattr(contract, "_BLOCK", block)
    arguments = (*vectors(2, rows=2, units=3), core(2, units=3))

    def function(x, y, weight):
        return tucker([x, y], weight)

    assert torch.autograd.gradcheck(function, arguments, check_forward_ad=True)
    assert torch.autograd.gradgradcheck(function, arguments)


@BLOCKS
@grouped("learned", [one for one in product([False, True], repeat=3) if any(one)])
def test_only_what_is_learned_gets_a_gradient(monkeypatch, learned: tuple[bool, ...], block: int) -> None:
    monkeypatch.setattr(contract, "_BLOCK", block)
    arguments = [*vectors(2), core(2)]
    mixed = [one if is_learned else one.detach() for one, is_learned in zip(arguments, learned, strict=True)]
    some = [one for one, is_learned in zip(arguments, learned, strict=True) if is_learned]
    expected = torch.autograd.grad(torch.einsum("fbi,fbj,foij->fbo", *arguments).square().sum(), some)
    x, y, weight = mixed
    found = torch.autograd.grad(tucker([x, y], weight).square().sum(), some)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=0)


@BLOCKS
@grouped("layout", LAYOUTS)
@grouped("sizes", [(4, 4, 2), (3, 4, 1), (1, 4, 3), (4, 1, 5), (1, 1, 1)])
def test_any_memory_and_any_sizes(monkeypatch, sizes: tuple[int, int, int], layout: str, block: int) -> None:
    monkeypatch.setattr(contract, "_BLOCK", block)
    left, right, sums = sizes
    generator = torch.Generator().manual_seed(0)
    shapes = (3, 5, left), (3, 5, right), (3, sums, left, right)
    plain = [torch.rand(shape, generator=generator, dtype=torch.float64) for shape in shapes]
    x, y, weight = arguments = [LAYOUTS[layout](one).detach().requires_grad_() for one in plain]
    found, expected = tucker([x, y], weight), torch.einsum("fbi,fbj,foij->fbo", x, y, weight)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=0)
    change = torch.rand(1, 1, sums, generator=generator, dtype=torch.float64).expand_as(found)
    ones, twos = (torch.autograd.grad(one, arguments, change) for one in (found, expected))
    torch.testing.assert_close(ones, twos, rtol=1e-12, atol=0)


@pytest.mark.parametrize("rows", [1, 2, 8, 9])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_few_rows_are_one_product(monkeypatch, layout: str, rows: int) -> None:
    monkeypatch.setattr(contract, "_FEW_ROWS", 8)
    monkeypatch.setattr(contract, "_BLOCK", 8)
    made = []
    monkeypatch.setattr(contract, "_blocks", lambda *a, of=contract._blocks: made.append(a) or of(*a))
    x, y, weight = arguments = [LAYOUTS[layout](one) for one in (*vectors(2, rows=rows), core(2))]
    found, expected = tucker([x, y], weight), torch.einsum("fbi,fbj,foij->fbo", *arguments)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=0)
    assert bool(made) == (rows > 8)
    change = torch.rand_like(expected)
    ones, twos = (torch.autograd.grad(one, arguments, change) for one in (found, expected))
    torch.testing.assert_close(ones, twos, rtol=1e-12, atol=0)


@BLOCKS
def test_no_rows(monkeypatch, block: int) -> None:
    monkeypatch.setattr(contract, "_BLOCK", block)
    x, y = vectors(2, rows=0)
    weight = core(2)
    found = tucker([x, y], weight)
    assert found.shape == (3, 0, 2)
    gradients = torch.autograd.grad(found.sum(), [x, y, weight])
    assert [one.shape for one in gradients] == [x.shape, y.shape, weight.shape]
    assert not gradients[2].any()


def test_threads_share_a_block(monkeypatch) -> None:
    monkeypatch.setattr(contract, "_BLOCK", 300)
    x, y = vectors(2)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 4)
    assert contract._block_size() == 1200
    torch.testing.assert_close(tucker([x, y], core(2)), torch.einsum("fbi,fbj,foij->fbo", x, y, core(2)))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("rows", [1, 5])
def test_transforms_see_through_it(monkeypatch, rows: int, layout: str) -> None:
    monkeypatch.setattr(contract, "_BLOCK", 8)
    x, y = (LAYOUTS[layout](vector.detach()) for vector in vectors(2, rows=rows))
    weight = LAYOUTS[layout](core(2).detach())
    parts = [tucker([x[fold, None], y[fold, None]], weight[fold, None])[0] for fold in range(len(x))]
    expected = torch.stack(parts)
    found = torch.vmap(lambda a, b, c: tucker([a[None], b[None]], c[None])[0])(x, y, weight)
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize(
    "equation",
    ["fbi,foi->fbo", "fblir,foi->fblor", "fbi,foji,fbj->fbo", "fbi,ofij,fbj->fbo", "fbi,foij,fbj->fob", "ab,bc->ac"],
)
def test_other_einstein_sums_are_torchs(equation: str) -> None:
    generator = torch.Generator().manual_seed(2)
    arrays = [
        torch.rand([3] * len(term), generator=generator, dtype=torch.float64)
        for term in equation.partition("->")[0].split(",")
    ]
    torch.testing.assert_close(einsum(equation, *arrays), torch.einsum(equation, *arrays), rtol=1e-12, atol=0)


def test_log_space_survives_what_underflows() -> None:
    x, y = (torch.log(vector.detach()) - 2000 for vector in vectors(2))
    weight = core(2).detach()
    found = log_einsum_exp("fbi,fbj,foij->fbo", x, y, weight)
    expected = tucker([(x + 2000).exp(), (y + 2000).exp()], weight).log() - 4000
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=0)


@pytest.mark.parametrize("rows", [2, 0])
@pytest.mark.parametrize("equation", ["fbi,fio->fbo", "fbi,fi->fbi", "fboi,foi->fbo", "fbi,foi->fo"])
def test_weights_whose_axes_are_others_than_those_of_sums(equation: str, rows: int) -> None:
    term, weighted = equation.partition("->")[0].split(",")
    sizes = {"f": 2, "b": rows, "i": 3, "o": 4}
    generator = torch.Generator().manual_seed(3)
    x, weight = (
        torch.rand([sizes[one] for one in name], generator=generator, dtype=torch.float64) for name in (term, weighted)
    )
    shift = torch.zeros_like(x)
    if not equation.endswith("fo"):
        shift[:, 1:] = -2000.0
    found = log_einsum_exp(equation, x.log() + shift, weight)
    expected = torch.einsum(equation, x, weight).log()
    if not equation.endswith("fo"):
        expected[:, 1:] -= 2000.0
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)


def test_values_of_one_term_whose_peaks_lie_apart() -> None:
    # Each alone is dwarfed by its own peak, but the peaks do not meet: shifting one by one would lose everything.
    x = torch.tensor([[[0.0, -2000.0, -1000.0]]], dtype=torch.float64)
    y = torch.tensor([[[-2000.0, 0.0, -900.0]]], dtype=torch.float64)
    weight = torch.ones(1, 1, 3, dtype=torch.float64)
    found = log_einsum_exp("fbi,fbi,foi->fbo", x, y, weight)
    torch.testing.assert_close(found, torch.tensor([[[-1900.0]]], dtype=torch.float64))


@pytest.mark.parametrize("equation", ["fbi,fbj,foij->fbo", "fbi,fbi,foi->fbo"])
def test_zero_probabilities_send_finite_gradients(equation: str) -> None:
    x = torch.full((1, 2, 2), -torch.inf, dtype=torch.float64).requires_grad_()
    y = torch.tensor([[[0.0, -torch.inf], [-1.0, -2.0]]], dtype=torch.float64).requires_grad_()
    weight = torch.rand(1, 3, *[2] * (2 if "j" in equation else 1), dtype=torch.float64).requires_grad_()
    found = log_einsum_exp(equation, x, y, weight)
    assert (found == -torch.inf).all()
    gradients = torch.autograd.grad(found, [x, y, weight], torch.ones_like(found))
    assert all(gradient.isfinite().all() for gradient in gradients)


@pytest.mark.parametrize("equation", ["fblir,foi->fblor", "fbli,foi->fblo", "fbi,fbi,foi->fbo"])
def test_a_sum_over_one_axis_is_right_far_below_the_largest_term(equation: str) -> None:
    # The largest unit has no weight, and what has weight underflows beside it.
    x = torch.zeros(
        1, 2, *[3 if letter == "i" else 2 for letter in equation.partition(",")[0][2:]], dtype=torch.float64
    )
    axis = equation.index("i")
    x = x.index_add(axis, torch.tensor([1, 2]), torch.full_like(x.narrow(axis, 0, 2), -900.0))
    weight = torch.tensor([[[0.0, 0.25, 0.75]]], dtype=torch.float64)
    found = log_einsum_exp(equation, *[x] * (equation.count(",")), weight)
    torch.testing.assert_close(found, torch.full_like(found, -900.0 * equation.count(",")))


INTEGERS = [
    ("ab,cb->ac", (3, 4), (5, 4)),
    ("ab,b->a", (3, 4), (4,)),
    ("ab,ab->", (3, 4), (3, 4)),
    ("aab,bc,c->a", (3, 3, 4), (4, 5), (5,)),
    ("a,b->ba", (3,), (4,)),
    ("ab,cb->ac", (0, 4), (5, 4)),
    ("ab,cb->ac", (3, 0), (5, 0)),
    ("Ark,ABkc->ABrc", (1, 3, 4), (2, 5, 4, 2)),  # axes of size 1 broadcast
]


@pytest.mark.parametrize("products", [1, 20, 1 << 24])
@pytest.mark.parametrize(("equation", "shapes"), [(equation, shapes) for equation, *shapes in INTEGERS], ids=str)
def test_integers_on_devices_that_multiply_no_matrices_of_them(equation, shapes, products, monkeypatch) -> None:
    monkeypatch.setattr(contract, "_PRODUCTS", products)
    generator = torch.Generator().manual_seed(0)
    for dtype in (torch.int64, torch.int32):
        arrays = [torch.randint(-9, 9, shape, generator=generator, dtype=dtype) for shape in shapes]
        found = contract._of_integers(equation, *arrays)
        torch.testing.assert_close(found, torch.einsum(equation, *arrays).to(dtype))


@pytest.mark.parametrize(
    "shapes",
    [((3, 4), (4, 2)), ((4,), (4, 2)), ((3, 4), (4,)), ((4,), (4,)), ((2, 1, 3, 4), (5, 4, 2)), ((4,), (5, 4, 2))],
)
def test_products_of_integers_on_devices(shapes) -> None:
    arrays = [torch.ones(shape, dtype=torch.int64) for shape in shapes]
    found = contract.integer_matmul(*(one.to("meta") for one in arrays))
    expected = torch.matmul(*arrays)
    assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
    assert contract.integer_matmul(*arrays).equal(expected)
