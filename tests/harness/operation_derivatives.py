"""First and second derivatives of operations on each entry, over numbers of all sizes, against references.

    check_operation(OPS["softplus"])

References are differentiated in extended precision by differences. Where the truth is known, torch says the same in
float64, and in float32 as far as it is a number of that dtype; elsewhere, at poles and the ends of domains, derivatives
may be infinite.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from plica.ir.op import Derivative, Op
from plica.ops.elementwise import ARITIES, KINDS
from tests.harness.derivatives import Derivatives, Exact, differences, disagreements, torch_derivatives
from tests.harness.programs import one_equation, run_torch
from tests.harness.spaces import WIDE

Array = Any
_SIZES = (0.0, 1e-45, 2.0**-126, 1e-30, 1e-6, 0.5, 1 - 2.0**-24, 1.0, 3.0, 31.0, 300.0, 1e6, 1e30)
NUMBERS = np.array([*_SIZES, *(-size for size in _SIZES)], np.float32).astype(float)
_FEW = np.array([0.0, -0.0, 1e-30, -0.5, 1.0, 2.0, -31.0, 1e6, -1e30], np.float32).astype(float)
# References that compute number by number in float64, whose differences say less.
_OF_FLOATS = ("erf", "erfinv")
# Where torch's own derivatives of derivatives are wrong on purpose or by its formulas: none is another's business.
WITHOUT: Mapping[str, str] = {
    "nextafter": "the next number of a dtype is no function of numbers",
    "floor_divide": "torch has no derivative of it, which is 0",
    "stop_gradient": "it has none on purpose",
}
# What torch's formulas square, so that float32 loses derivatives where squares leave it; float64 is compared.
SQUARING = ("acosh", "asinh", "atan2", "divide", "hypot", "pow")
EXCEPT: Mapping[str, tuple[str, Callable[..., Array]]] = {
    "copysign": ("it jumps where a sign does", lambda x, y: (x == 0) | (y == 0)),
    "remainder": ("steps from 0 pass many kinks", lambda _, y: np.abs(y) < 1e-6),
    "pow": ("a power of a negative number is no function of its exponent", lambda x, _: x < 0),
}


def operations(ops: Mapping[str, Op]) -> list[Op]:
    """Those that work on each entry of floats, and have derivatives."""
    known = [ops[name] for name, kinds in KINDS.items() if "float" in kinds]
    return [
        op
        for op in known
        if op.name not in WITHOUT
        and op.derivative not in (Derivative.NONE, Derivative.ITS_OWN)
        and one_equation(op.name, [np.ones(1)] * ARITIES[op.name], {}).results[0].type.dtype.kind == "float"
    ]


def check_operation(op: Op) -> None:
    """Values and derivatives, in both dtypes."""
    faults = faults_of(op)
    assert not faults, f"{op.name}: {len(faults)} faults:\n" + "\n".join(faults[:6])


def faults_of(op: Op) -> list[str]:
    """What is wrong, and where."""
    arity = ARITIES[op.name]
    names = ["x", "y"][:arity]
    grid = np.meshgrid(*[NUMBERS if arity == 1 else _FEW] * arity, indexing="ij")
    point = {name: one.reshape(-1, 1) for name, one in zip(names, grid, strict=True)}
    steps = {name: np.where(one == 0, 1.0, np.abs(one)) for name, one in point.items()}
    directions: list[dict[str, Array]] = [{name: steps[name]} for name in names]
    if arity == 2:
        directions += [{"x": 0.5 * steps["x"], "y": 0.5 * steps["y"]}]
    sizes = np.stack([np.max(list(one.values()), axis=0) for one in directions])
    dtype: Any = np.float64 if op.name in _OF_FLOATS else WIDE

    def reference(points: Sequence[Mapping[str, Array]]) -> list[Array]:
        return [np.asarray(op.reference(*(one[name] for name in names)), dtype) for one in points]

    def by_torch(kind: torch.dtype) -> Derivatives:
        program = one_equation(op.name, [point[name].ravel().astype(str(kind)[6:]) for name in names], {})

        def values(moved: Mapping[str, Tensor]) -> Tensor:
            return run_torch(program, *(moved[name] for name in names))[0]

        lengths = np.where(sizes == 0, 1.0, sizes)
        given = {name: torch.tensor(point[name].ravel(), dtype=kind) for name in names}
        moves = [
            {name: torch.tensor((step / length).ravel(), dtype=kind) for name, step in one.items()}
            for one, length in zip(directions, lengths, strict=True)
        ]
        value, first, second = (one.double().numpy() for one in torch_derivatives(values, given, moves))
        first, second = first[..., None] * lengths, second[..., None] * lengths**2
        return Derivatives(value[:, None], first, second, np.zeros((2, *first.shape)))

    wanted = differences(reference, point, directions, dtype)
    found: list[str] = []
    wide = by_torch(torch.float64)
    exact = Exact(1e-4, 1e-6) if op.name in _OF_FLOATS else Exact(1e-6, 1e-9)
    most = np.max([np.abs(one) for one in point.values()], axis=0)
    near = np.min([np.where(one == 0, np.inf, np.abs(one)) for one in point.values()], axis=0)
    if op.derivative is Derivative.BESIDE_KINKS:
        wanted.errors[:, :, most > 1e3 * np.minimum(near, 1.0)] = np.inf  # steps of their sizes pass many kinks
    if op.name in EXCEPT:
        wanted.errors[:, :, EXCEPT[op.name][1](*point.values())] = np.inf
    truths = np.abs(np.stack([wanted.first, wanted.second]))
    is_unknown = ~(wanted.errors <= 1e-3 * (truths + np.abs(wanted.value) + 1e-9)).all(axis=(0, 1))
    is_squared = (most > 1e18) | (near < 1e-18) if op.name in SQUARING else np.zeros_like(is_unknown)
    # slopes on both sides are numbers, so that torch has to choose one
    is_bounded = np.isfinite(wanted.errors[0]) & (
        wanted.errors[0] <= 10 * (np.abs(wanted.first) + np.abs(wanted.value) + sizes)
    )
    doubtful = np.where(is_unknown | is_squared, np.inf, wide.errors)
    expected_of_narrow = Derivatives(wide.value, wide.first, wide.second, doubtful)
    spread = sizes.max(axis=0) / near > 1e20
    for one in (wanted, expected_of_narrow):
        one.errors[:, arity:, spread] = np.inf
    for kind, mine, truth, limit in (
        (torch.float64, wide, wanted, exact),
        (torch.float32, by_torch(torch.float32), expected_of_narrow, Exact(2e-3, 1e-3, 1e-4)),
    ):
        for what, at, told in disagreements(mine, truth, sizes, arity, limit, torch.finfo(kind), 1.0, 2):
            row = at[-2]
            # a pole, a kink, an end of what it is defined for, or what is too large for the dtype
            doubted = is_unknown[row, 0] or (kind == torch.float32 and is_squared[row, 0])
            at_kink = what.endswith("first derivative") and is_bounded[at[0], row, 0]
            excused = not np.isfinite(mine.value[row, 0]) or (doubted and not at_kink)
            if what.startswith("no finite") and excused:
                continue
            place = [float(point[name][row, 0]) for name in names]
            found.append(f"{kind} {what} along {sorted(directions[at[0]]) if len(at) == 3 else ''} at {place}: {told}")
    return found
