"""Circuits that are trained, written to, loaded, copied and cast at random; after each step eval mode is compared.

    Life(seed).run()

The values in each mode, the gradients and the answers to queries are those of the same circuit with nothing kept.
"""

import copy
import io
import pickle
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from plica.backend.torch.circuits import TorchCircuit
from plica.backend.torch.compiler import TorchCompiler
from plica.constants.policy import FoldPolicy
from plica.errors import PlicaError
from plica.queries import mpe, sample
from plica.symbolic.circuit import Circuit
from tests.harness.composed_circuits import ROWS, Composer
from tests.harness.eval_circuits import edges
from tests.harness.random_circuits import FAMILIES, draw_circuit

Action = Callable[["Life", TorchCircuit], TorchCircuit | None]
POLICIES = (
    None,
    None,
    FoldPolicy(max_growth=0),
    FoldPolicy(max_growth=50),
    FoldPolicy(max_peak=100),
    FoldPolicy(max_growth=None, widen=True),
    FoldPolicy(max_growth=None, check="checksum"),
)
MODES = (torch.no_grad, torch.inference_mode, torch.enable_grad)


class _Nothing:
    """What keeps nothing, in the place of a circuit's constants: every Program runs unfolded."""

    def __getattr__(self, name: str) -> Callable[..., None]:
        del name
        return lambda *_, **__: None


@contextmanager
def nothing_kept(circuit: TorchCircuit) -> Iterator[None]:
    """Where a circuit computes everything at each call."""
    kept = circuit.constants
    circuit.constants = _Nothing()  # type: ignore[assignment]
    try:
        yield
    finally:
        circuit.constants = kept


class Life:
    """One draw: a circuit, maybe a second one that shares its tensors, data, and steps.

    Args:
        seed: By which everything is drawn.
    """

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng([seed, 10])
        torch.manual_seed(seed)
        self.log: list[str] = []
        composed = self.rng.random() < 0.25
        if composed:
            composer = Composer(seed)
            circuit, self.x = composer.circuit(), torch.from_numpy(composer.data())
            dtype, semiring = self.choice("float32", "float64"), "lse-sum"
        else:
            draw = draw_circuit(self.choice(*FAMILIES), seed)
            circuit, self.x, dtype = draw.circuit, draw.x, str(draw.dtype).split(".")[1]
            semiring = "sum-product" if draw.signed else self.choice("lse-sum", "lse-sum", "sum-product", "max-product")
        fold, optimize = (bool(one < 0.7) for one in self.rng.random(2))
        policy = POLICIES[self.rng.integers(len(POLICIES))]
        self.compiler = TorchCompiler(semiring, dtype=dtype, policy=policy, fold=fold, optimize=optimize)
        for row in ROWS if composed else ():
            self.compiler.add_layer_rule(row)
        self.has_queries = not composed
        self.log += [f"{circuit!r} {semiring} {dtype} fold={fold} optimize={optimize} {policy}"]
        self.circuits = [self.compiler.compile(circuit)]
        if self.rng.random() < 0.4:
            self.circuits.append(self.compiler.compile(Circuit(circuit.layers, edges(circuit), circuit.outputs[:1])))

    def choice(self, *of: Any) -> Any:
        """One of several, each as likely."""
        return of[self.rng.integers(len(of))]

    def run(self, steps: int = 6) -> None:
        """Steps, each followed by a comparison of all circuits."""
        self.compare()
        for _ in range(steps):
            name, place = self.choice(*ACTIONS), int(self.rng.integers(len(self.circuits)))
            self.log.append(f"{place}: {name}")
            try:
                with torch.no_grad():
                    made = ACTIONS[name](self, self.circuits[place])
            except (RuntimeError, PlicaError) as error:
                if not _is_of_torch(error):
                    raise
                made = None
            self.circuits[place] = self.circuits[place] if made is None else made
            self.compare()

    def compare(self) -> None:
        """Each circuit against itself with nothing kept."""
        for circuit in self.circuits:
            for rows in (self.x, self.x[:1], self.x[:0]):
                for mode in self.rng.permutation(len(MODES)):
                    self._compare(circuit, partial(_value, circuit, rows, MODES[mode]))
            self._compare(circuit, partial(gradients, circuit, self.x))
            if self.has_queries and self.rng.random() < 0.15:
                self._compare(circuit, partial(answers, circuit, self.x))

    def _compare(self, circuit: TorchCircuit, value: Callable[[], list[Any]]) -> None:
        found = _attempt(value)
        with nothing_kept(circuit):
            expected = _attempt(value)
        assert len(found) == len(expected), self.log
        for one, other in zip(found, expected, strict=True):
            assert type(one) is type(other), (self.log, one, other)
            if isinstance(one, Tensor):
                assert one.dtype == other.dtype, self.log
                assert torch.equal(_plain(one), _plain(other)), (self.log, one, other)
            else:
                assert one == other, self.log


def _attempt(value: Callable[[], list[Any]]) -> list[Any]:
    """What is computed, or what is wrong with it."""
    try:
        return value()
    except PlicaError as error:
        return [str(error)]
    except RuntimeError as error:
        if not _is_of_torch(error):
            raise
        return ["tensors of inference mode"]


def _is_of_torch(error: Exception) -> bool:
    """Whether torch refuses tensors of inference mode, or with other strides: with nothing kept too."""
    return any(word in str(error) for word in ("nference", "automatic differentiation", "view size"))


def _plain(tensor: Tensor) -> Tensor:
    return tensor.nan_to_num(7.5, posinf=8e30, neginf=-8e30) if tensor.is_floating_point() else tensor


def _value(circuit: TorchCircuit, x: Tensor, mode: Any) -> list[Any]:
    with mode():
        found = circuit(x)
        return [found.detach(), found.requires_grad]


def gradients(circuit: TorchCircuit, x: Tensor) -> list[Any]:
    """The gradients of all parameters; nothing where none is asked for."""
    circuit.zero_grad()
    found = circuit(x)
    finite = found[torch.isfinite(found)]
    if not finite.requires_grad or not len(finite):
        return []
    (finite * torch.linspace(1, 2, len(finite), dtype=finite.dtype)).sum().backward()
    made = [one.grad for one in circuit.parameters()]
    circuit.zero_grad()
    return made


def answers(circuit: TorchCircuit, x: Tensor) -> list[Any]:
    """Samples, and the most probable values of what is missing."""
    return [sample(circuit, 4, seed=1), *(mpe(circuit, x) if len(x) else ())]


# Steps

_OPTIMIZERS: tuple[tuple[type[torch.optim.Optimizer], tuple[str, ...]], ...] = (
    *((kind, ("fused", "fused", "foreach", "plain")) for kind in (torch.optim.Adam, torch.optim.AdamW)),
    *((kind, ("fused", "fused", "foreach", "plain")) for kind in (torch.optim.SGD, torch.optim.Adagrad)),
    *((kind, ("foreach", "plain")) for kind in (torch.optim.Adadelta, torch.optim.RMSprop, torch.optim.Rprop)),
    *((kind, ("foreach", "plain")) for kind in (torch.optim.NAdam, torch.optim.RAdam, torch.optim.Adamax)),
    *((kind, ("foreach", "plain")) for kind in (torch.optim.ASGD, torch.optim.Adafactor)),
    (torch.optim.LBFGS, ("alone",)),
)


def _optimize(life: Life, circuit: TorchCircuit) -> None:
    learned = [one for one in circuit.parameters() if one.requires_grad and one.numel()]
    if not learned:
        return
    kind, ways = life.choice(*_OPTIMIZERS)
    how = life.choice(*ways)
    life.log.append(f"{kind.__name__}, {how}")
    settings = {"fused": {"fused": True}, "foreach": {"foreach": True}, "plain": {"foreach": False}, "alone": {}}[how]
    optimizer = kind(learned, lr=0.05, **settings)

    def loss() -> float:
        for one in learned:
            one.grad = 0.1 * torch.randn_like(one).clamp(-2, 2)
        return 1.0

    loss()
    optimizer.step(loss if how == "alone" else None)


def _scaled(circuit: TorchCircuit) -> dict[str, Tensor]:
    return {key: one * 1.03 if one.is_floating_point() else one for key, one in circuit.state_dict().items()}


def _load(_: Life, circuit: TorchCircuit) -> None:
    circuit.load_state_dict(_scaled(circuit))


def _assign(_: Life, circuit: TorchCircuit) -> None:
    circuit.load_state_dict(_scaled(circuit), assign=True)


def _assign_in_inference_mode(_: Life, circuit: TorchCircuit) -> None:
    with torch.inference_mode():
        circuit.load_state_dict(_scaled(circuit), assign=True)


def _some(life: Life, circuit: TorchCircuit) -> None:
    for one in circuit.parameters():
        if life.rng.random() < 0.5:
            one.mul_(1.01)


def _of_leaves(life: Life, circuit: TorchCircuit) -> None:
    circuit.leaves.train(life.choice(True, False))


def _part(_: Life, circuit: TorchCircuit) -> None:
    for one in circuit.parameters():
        one[-1].mul_(1.02)


def _data(_: Life, circuit: TorchCircuit) -> None:
    for one in circuit.parameters():
        one.data.mul_(1.04)
    circuit.train().eval()


def _memory(_: Life, circuit: TorchCircuit) -> None:
    for one in circuit.parameters():
        one.data = one.data * 1.02


def _transposed(_: Life, circuit: TorchCircuit) -> None:
    for one in circuit.parameters():
        if one.ndim == 3 and one.shape[1] == one.shape[2]:
            one.data = one.data.transpose(1, 2)


def _in_inference_mode(_: Life, circuit: TorchCircuit) -> None:
    with torch.inference_mode():
        for one in circuit.parameters():
            one.mul_(1.01)


def _buffers(_: Life, circuit: TorchCircuit) -> None:
    for one in circuit.buffers():
        if one.is_floating_point():
            one.mul_(1.01)


def _attributes(_: Life, circuit: TorchCircuit) -> None:
    for name, one in list(circuit.leaves.named_parameters()):
        setattr(circuit.leaves, name, nn.Parameter(one.detach() * 1.01, requires_grad=one.requires_grad))


def _vector(_: Life, circuit: TorchCircuit) -> None:
    if list(circuit.parameters()):
        vector = nn.utils.parameters_to_vector(circuit.parameters())
        nn.utils.vector_to_parameters(vector * 1.01, circuit.parameters())


def _freeze(life: Life, circuit: TorchCircuit) -> None:
    for one in circuit.parameters():
        one.requires_grad_(bool(life.rng.random() < 0.5))


def _for_one_call(life: Life, circuit: TorchCircuit) -> None:
    other = {name: one.detach() * 1.07 for name, one in circuit.named_parameters()}
    life._compare(circuit, lambda: [torch.func.functional_call(circuit, other, (life.x,))])


def _saved(_: Life, circuit: TorchCircuit) -> TorchCircuit:
    file = io.BytesIO()
    torch.save(circuit, file)
    file.seek(0)
    found: TorchCircuit = torch.load(file, weights_only=False)
    return found


def _elsewhere(*_: Any) -> None:
    other = nn.Linear(2, 2)
    for one in other.parameters():
        one.grad = torch.ones_like(one)
    torch.optim.SGD(other.parameters(), fused=True).step()


ACTIONS: dict[str, Action] = {
    "a step": _optimize,
    "another step": _optimize,
    "a third step": _optimize,
    "eval": lambda _, circuit: circuit.eval(),
    "eval again": lambda _, circuit: circuit.eval(),
    "train": lambda _, circuit: circuit.train(),
    "the mode of the leaves": _of_leaves,
    "some in place": _some,
    "a part in place": _part,
    "load_state_dict": _load,
    "load_state_dict, assign": _assign,
    "load_state_dict in inference mode": _assign_in_inference_mode,
    "cast": lambda life, circuit: circuit.double() if life.choice(True, False) else circuit.float(),
    "deepcopy": lambda _, circuit: copy.deepcopy(circuit),
    "pickle": lambda _, circuit: pickle.loads(pickle.dumps(circuit)),
    "torch.save": _saved,
    "requires_grad_": lambda life, circuit: circuit.requires_grad_(life.choice(True, False)),
    "freeze": _freeze,
    "data, and eval": _data,
    "other memory": _memory,
    "transposed": _transposed,
    "in inference mode": _in_inference_mode,
    "buffers": _buffers,
    "other parameters": _attributes,
    "a vector": _vector,
    "reset": lambda life, circuit: circuit.reset_parameters(int(life.rng.integers(9))),
    "other tensors for one call": _for_one_call,
    "a step elsewhere": _elsewhere,
}
