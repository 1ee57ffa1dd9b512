"""Modules of a user's own as input layers: what circuits do with them, and what they refuse by name."""

import copy
import math
import pickle
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import plica
from plica.backend.torch.compiler import TorchCompiler
from plica.errors import DTypeError, InputError, ShapeError, UnsupportedError
from plica.lower import cascade
from plica.symbolic.circuit import Circuit
from plica.symbolic.domains import finite
from plica.symbolic.layers import GaussianLayer, HadamardLayer, ModuleLayer, SumLayer
from plica.symbolic.semirings import Bound
from tests.harness.layer_cases.module import ANSWERS, Distances, Normals

X = torch.tensor([[0.3, -1.0, 0.5, 0.0], [1.0, 0.2, -0.3, 2.0]], dtype=torch.float64)
GAP = torch.tensor([[math.nan, math.nan, 0.5, 0.0], [1.0, 0.2, -0.3, math.nan]], dtype=torch.float64)


def circuit(*modules: nn.Module, **how: Any) -> Circuit:
    """A module of two variables, one of one variable and a density, below a sum."""
    first, second = modules or (Normals(2, 3), Normals(1, 3))
    inputs = [
        ModuleLayer([0, 1], 3, module=first, **{"answers": ANSWERS, **how}),
        ModuleLayer([2], 3, module=second, answers=ANSWERS),
        GaussianLayer([3], 3),
    ]
    product, total = HadamardLayer(3, 3), SumLayer(3, 1)
    return Circuit([*inputs, product, total], {product: inputs, total: [product]}, [total])


def compiled(*modules: nn.Module, **how: Any) -> Any:
    return TorchCompiler(dtype="float64").compile(circuit(*modules, **how))


def test_values_and_what_is_summed_out() -> None:
    first, second = Normals(2, 3), Normals(1, 3)
    found = compiled(first, second)
    weights = found.state_dict()["4.weight"].log_softmax(-1)[0]
    mean, raw = found.state_dict()["2.mean"], found.state_dict()["2.stddev"]
    spread = nn.functional.softplus(raw) + 1e-5
    last = torch.distributions.Normal(mean, spread).log_prob(X[:, 3:])
    by_hand = (weights + first(X[:, :2]) + second(X[:, 2:3]) + last).logsumexp(-1)
    assert torch.allclose(found(X).flatten(), by_hand, atol=1e-12)
    gap = (weights + first.factor + second(GAP[:1, 2:3]) + last[:1]).logsumexp(-1)
    assert torch.allclose(found(GAP).flatten()[:1], gap, atol=1e-12)


def test_modules_never_fold_and_others_do() -> None:
    layers = [ModuleLayer([place], 2, module=Normals(1, 2)) for place in range(2)]
    others = [GaussianLayer([place], 2) for place in (2, 3)]
    product = HadamardLayer(2, 4)
    found = plica.compile(Circuit([*layers, *others, product], {product: [*layers, *others]}, [product]))
    assert [(group.kind, group.num_folds) for group in found.layers] == [
        ("input", 1),
        ("input", 1),
        ("input", 2),
        ("product", 1),
    ]


@pytest.mark.parametrize(("fold", "optimize"), [(True, True), (False, True), (True, False)])
def test_state_dicts_name_modules_by_their_layers(fold: bool, optimize: bool) -> None:
    found = TorchCompiler(fold=fold, optimize=optimize, dtype="float64").compile(circuit())
    keys = [f"{layer}.module.{name}" for layer in (0, 1) for name in ("mean", "log_scale", "factor")]
    assert sorted(found.state_dict()) == sorted(["2.mean", "2.stddev", "4.weight", *keys])
    assert len(list(found.parameters())) == len(found.state_dict())
    state = {key: value + 1 for key, value in found.state_dict().items()}
    found.load_state_dict(state)
    assert all(torch.equal(value, state[key]) for key, value in found.state_dict().items())
    holder = nn.ModuleDict({"inner": found})
    holder.load_state_dict({f"inner.{key}": value for key, value in state.items()})
    with pytest.raises(RuntimeError, match="Missing key"):
        found.load_state_dict({key: value for key, value in state.items() if key != "0.module.mean"})


def test_modules_are_shared_with_whoever_made_them_and_copied_with_circuits() -> None:
    module = Normals(2, 3)
    found = compiled(module, Normals(1, 3))
    before = found(X)
    for other in (copy.deepcopy(found), pickle.loads(pickle.dumps(found))):
        assert torch.equal(other(X), before)
        with torch.no_grad():
            other.leaves.module_0.mean.add_(1.0)
        assert not torch.equal(other(X), before)
        assert torch.equal(found(X), before)
    with torch.no_grad():
        module.mean.add_(1.0)
    assert not torch.equal(found(X), before)


def test_nothing_of_a_module_is_kept() -> None:
    found = compiled().eval()
    with torch.no_grad():
        before = found(GAP)
        found.leaves.module_0.factor.add_(1.0)
        assert torch.allclose(found(GAP), before + 1.0), "of what it integrates to, and of its values"


def test_a_module_is_trained_with_its_circuit() -> None:
    found = compiled()
    optimizer = torch.optim.Adam(found.parameters(), lr=0.1)
    losses = []
    for _ in range(15):
        optimizer.zero_grad()
        loss = -found(X).mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] - 1
    assert all(parameter.grad is not None for parameter in found.leaves.module_0.parameters() if parameter.dim() > 1)


def test_queries() -> None:
    found = compiled()
    rows, log_values = plica.queries.mpe(found, torch.full((1, 4), math.nan, dtype=torch.float64))
    best = (found.state_dict()["4.weight"].log_softmax(-1)[0] + sum(_peaks(found))).argmax()
    assert torch.allclose(rows[0, :2], found.leaves.module_0.mean[best])
    assert log_values.isfinite().all()
    drawn = plica.queries.sample(found, 4000, given=GAP[:1], seed=0)
    assert torch.equal(drawn[:, 2:], GAP[:1, 2:].expand(4000, 2))
    assert drawn.isfinite().all()
    assert plica.queries.sample(found, 5, seed=1).shape == (5, 4)


def test_explanations_ask_for_modes_alone() -> None:
    found = compiled(answers=("mode",))
    rows, log_values = plica.queries.mpe(found, GAP)
    assert torch.equal(rows[GAP.isfinite()], GAP[GAP.isfinite()])
    assert any(torch.equal(rows[0, :2], mode) for mode in found.leaves.module_0.mean)
    torch.testing.assert_close(plica.queries.mpe_bounds(found, GAP).log_values, log_values)
    with pytest.raises(UnsupportedError, match="normalized=True"):
        plica.queries.latent_posterior(found, GAP)


def _peaks(found: Any) -> list[Tensor]:
    peaks = [module(module.mean).diagonal() for module in (found.leaves.module_0, found.leaves.module_1)]
    spread = nn.functional.softplus(found.state_dict()["2.stddev"]) + 1e-5
    return [*peaks, -spread.log() - 0.5 * math.log(2 * math.pi)]


def test_what_a_module_does_not_answer_is_refused() -> None:
    found = compiled(answers=())
    assert found(X).isfinite().all()
    with pytest.raises(UnsupportedError, match=r"row 0: variable 0 is missing, and ModuleLayer\(0.*normalized=True"):
        found(GAP)
    with pytest.raises(UnsupportedError, match="cannot be summed out: nothing says what its module integrates to"):
        plica.queries.sample(found, 2)
    found = compiled(answers=("log_partition",))
    assert found(GAP).isfinite().all()
    with pytest.raises(UnsupportedError, match="its module does not answer 'sample'; write the method sample"):
        plica.queries.sample(found, 2)
    with pytest.raises(UnsupportedError, match="its module does not answer 'mode'"):
        plica.queries.mpe(found, GAP)


def test_rows_that_cannot_be_read_are_nan_where_nobody_may_look() -> None:
    found = compiled(answers=())
    with torch.no_grad():
        values = torch.func.vmap(lambda x: found(x[None])[0])(GAP)
    assert values[0].isnan().all()
    assert values[1].isfinite().all(), "variable 3 is a density's"


def test_normalized_modules_and_ordinary_numbers() -> None:
    class Uniform(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return ((x >= 0) & (x < 1)).to(x.dtype).expand(-1, 2)

    layer, total = ModuleLayer([0], 2, module=Uniform(), log_space=False, normalized=True), SumLayer(2, 1)
    for semiring in ("lse-sum", "sum-product"):
        found = TorchCompiler(semiring).compile(Circuit([layer, total], {total: [layer]}, [total]))
        values = found(torch.tensor([[0.5], [2.0], [math.nan]])).flatten()
        assert torch.allclose(values.exp() if semiring == "lse-sum" else values, torch.tensor([1.0, 0.0, 1.0]))


def test_states_arrive_as_whole_numbers() -> None:
    table = nn.Embedding(4, 3)

    class Table(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = table

        def forward(self, x: Tensor) -> Tensor:
            found: Tensor = self.table(x[:, 0])
            return found

    layer = ModuleLayer([0], 3, module=Table(), domain=finite(4))
    found = plica.compile(Circuit([layer], {}, [layer]))
    x = torch.tensor([[0], [3]])
    assert torch.equal(found(x)[:, 0], table.weight[[0, 3]])
    with pytest.raises(InputError, match="the value 4 is"):
        found(torch.tensor([[4]]))


def test_other_shapes_and_objects_are_refused() -> None:
    layer = ModuleLayer([0], 2, module=Distances())
    with pytest.raises(ShapeError, match=r"Distances.forward, of a ModuleLayer, returned shape \(3, 1\).*\(3, 2\)"):
        plica.compile(Circuit([layer], {}, [layer]))(torch.zeros(3, 1))

    class Plain:
        def forward(self, x: Any) -> Any:
            return x

    other = ModuleLayer([0], 2, module=Plain())
    with pytest.raises(DTypeError, match=r"0\.module: a ModuleLayer runs a torch\.nn\.Module here, found Plain"):
        plica.compile(Circuit([other], {}, [other]))


def test_other_executors_refuse_it() -> None:
    found = compiled()
    program = found.program
    leaves = [getattr(found.leaves, var.name).detach().numpy() for var in program.consts]
    with pytest.raises(UnsupportedError, match="only that backend can"):
        plica.interpret(program, X.numpy(), consts=leaves)
    assert plica.parse(str(program)) == program
    with pytest.raises(UnsupportedError, match=r"calls the module 0\.module, which a function that plica\.jit traces"):
        plica.jit(lambda x: found(x))(X)


def test_rows_are_seen_together_and_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from plica.backend.torch import scoring

    monkeypatch.setattr(scoring, "_PART", 1)
    monkeypatch.setitem(cascade.FROM, Bound.OF_ROWS, 0)
    module, seen = Normals(2, 3), []
    module.register_forward_hook(lambda _, args, __: seen.append(len(args[0])))
    with torch.no_grad():
        compiled(module, Normals(1, 3))(X.repeat(50, 1))
    assert seen == [100]
