import numpy as np
import pytest

from plica.errors import DTypeError, InputError
from plica.symbolic.initializers import (
    ConstantTensorInitializer,
    DirichletInitializer,
    Initializer,
    NormalInitializer,
    UniformInitializer,
)

# initializer, a shape that it fills, a shape that it refuses (None: it fills any)
TABLE = [
    (ConstantTensorInitializer(2.5), (2, 3), None),
    (ConstantTensorInitializer(np.arange(6.0).reshape(2, 3)), (2, 3), (3, 2)),
    (ConstantTensorInitializer(1j), (), None),
    (UniformInitializer(-1.0, 3.0), (4, 5), None),
    (NormalInitializer(1.0, 0.1), (4, 5), None),
    (DirichletInitializer(), (4, 5), ()),
    (DirichletInitializer([1.0, 2.0, 3.0]), (4, 3), (3, 4)),
    (DirichletInitializer([1.0, 2.0, 3.0], axis=0), (3, 4), (4, 3)),
    (DirichletInitializer(0.5, axis=1), (2, 3, 4), (2,)),
]


@pytest.mark.parametrize(("initializer", "allowed", "refused"), TABLE)
def test_draws_the_shapes_that_it_allows(
    initializer: Initializer, allowed: tuple[int, ...], refused: tuple[int, ...] | None
) -> None:
    assert initializer.allows_shape(allowed)
    assert refused is None or not initializer.allows_shape(refused)
    first, again = (initializer.draw(np.random.default_rng(3), allowed) for _ in range(2))
    assert first.shape == allowed
    assert np.array_equal(first, again)
    rebuilt = type(initializer)(**initializer.config)
    assert np.array_equal(rebuilt.draw(np.random.default_rng(3), allowed), first)


def test_draws_follow_the_settings() -> None:
    rng = np.random.default_rng(0)
    uniform = UniformInitializer(-1.0, 3.0).draw(rng, (10_000,))
    assert uniform.min() >= -1
    assert uniform.max() < 3
    assert abs(uniform.mean() - 1) < 0.1
    normal = NormalInitializer(5.0, 0.5).draw(rng, (10_000,))
    assert abs(normal.mean() - 5) < 0.05
    assert abs(normal.std() - 0.5) < 0.05
    dirichlet = DirichletInitializer([1.0, 3.0], axis=1).draw(rng, (2000, 2, 3))
    assert np.allclose(dirichlet.sum(axis=1), 1)
    assert abs(dirichlet[:, 1].mean() - 0.75) < 0.02


def test_complex_draws_have_imaginary_parts_of_their_own() -> None:
    rng, shape = np.random.default_rng(0), (20_000,)
    normal = NormalInitializer(5.0, 0.5).draw_complex(rng, shape)
    assert abs(normal.mean() - 5) < 0.02
    assert abs((abs(normal - 5) ** 2).mean() - 0.25) < 0.01
    assert abs(normal.real.std() - 0.5 / 2**0.5) < 0.01
    assert abs(normal.imag.std() - 0.5 / 2**0.5) < 0.01
    assert abs((normal.imag * (normal.real - 5)).mean()) < 0.01
    uniform = UniformInitializer(-1.0, 3.0).draw_complex(rng, shape)
    for part in (uniform.real, uniform.imag):
        assert part.min() >= -1
        assert part.max() < 3
        assert abs(part.mean() - 1) < 0.05
    assert abs(np.corrcoef(uniform.real, uniform.imag)[0, 1]) < 0.03
    for real in (DirichletInitializer(2.0), ConstantTensorInitializer(3.0)):
        assert np.isrealobj(real.draw_complex(rng, (3,)))
        assert real.draw_complex(rng, (3,)).shape == (3,)


def test_values_of_a_constant_are_kept_apart() -> None:
    value = np.zeros(3)
    initializer = ConstantTensorInitializer(value)
    value[0] = 7
    assert initializer.draw(np.random.default_rng(0), (3,)).tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: UniformInitializer(1.0, 1.0), r"needs a < b, found a=1\.0 and b=1\.0"),
        (lambda: NormalInitializer(0.0, 0.0), r"needs a positive stddev, found 0\.0"),
        (lambda: DirichletInitializer(0.0), "needs positive concentrations"),
        (lambda: DirichletInitializer([1.0, -1.0]), "needs positive concentrations"),
        (lambda: UniformInitializer(-np.inf, 1.0), "UniformInitializer needs a finite a, found -inf"),
        (lambda: UniformInitializer(-1e308, 1e308), "UniformInitializer needs a finite b - a"),
        (lambda: NormalInitializer(10**400), "NormalInitializer needs a finite mean, found 1000"),
        (lambda: NormalInitializer(0.0, "1"), "stddev must be a number, found '1'"),  # type: ignore[arg-type]
        (lambda: DirichletInitializer([1.0, np.inf]), "DirichletInitializer needs a finite alpha"),
        (lambda: ConstantTensorInitializer("1"), "ConstantTensorInitializer: expected numbers .*, found '1'"),  # type: ignore[arg-type]
    ],
)
def test_refuses(make, message: str) -> None:
    with pytest.raises((InputError, DTypeError), match=message):
        make()
