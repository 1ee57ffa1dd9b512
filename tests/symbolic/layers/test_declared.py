"""Distributions that are declared: one of a test's own, what follows from a class, and what is refused."""

import copy
import inspect
import pickle
from dataclasses import FrozenInstanceError
from typing import Any, cast

import numpy as np
import pytest
import torch
from scipy import stats

from plica.errors import GraphError, InputError, PlicaError, UnsupportedError
from plica.ir.op import unsupported
from plica.pipeline import PipelineContext
from plica.queries import mean, mpe, probability, quantile, sample, variance
from plica.symbolic.circuit import Circuit
from plica.symbolic.domains import REALS, Domain, finite
from plica.symbolic.initializers import ConstantTensorInitializer
from plica.symbolic.layers import SumLayer, UnivariateLayer, setting, states, unit_parameter
from plica.symbolic.parameters import ConstantParameter, Parameter, TensorParameter, normal
from tests.harness.conformance import check_constructor
from tests.harness.layer_cases.logistic import CASES, LogisticLayer

WEIGHTS, LOC, SCALE = np.array([0.3, 0.7]), np.array([-1.0, 2.0]), np.array([0.5, 1.5])


def _mixture() -> Any:
    loc = TensorParameter(2, initializer=ConstantTensorInitializer(LOC))
    layer = LogisticLayer([0], 2, loc=loc, scale=ConstantParameter(2, value=SCALE))
    total = SumLayer(2, 1, weight=ConstantParameter(1, 2, value=WEIGHTS[None]))
    context = PipelineContext()
    context.add_layer_compilation_rule(LogisticLayer.row)
    return context.compile(Circuit([layer, total], {total: [layer]}, [total])).to(torch.float64)


def test_a_declared_distribution_is_scored_and_asked() -> None:
    compiled = _mixture()
    kinds = [stats.logistic(*pair) for pair in zip(LOC, SCALE, strict=True)]

    def weighted(name: str, *points: Any) -> Any:
        return sum(share * getattr(kind, name)(*points) for share, kind in zip(WEIGHTS, kinds, strict=True))

    x = np.linspace(-9, 9, 7)[:, None]
    rows = torch.from_numpy(x)
    np.testing.assert_allclose(compiled(rows)[:, 0, 0].detach().numpy(), np.log(weighted("pdf", x))[:, 0], rtol=1e-12)
    whole = torch.full((1, 1), torch.nan, dtype=torch.float64)
    expected = weighted("mean")
    np.testing.assert_allclose(mean(compiled, whole).item(), expected, rtol=1e-12)
    second = sum(share * (kind.var() + kind.mean() ** 2) for share, kind in zip(WEIGHTS, kinds, strict=True))
    np.testing.assert_allclose(variance(compiled, whole).item(), second - expected**2, rtol=1e-12)
    between = probability(compiled, rows[2:3], rows[4:5]).item()
    np.testing.assert_allclose(between, (weighted("cdf", x[4]) - weighted("cdf", x[2])).item(), rtol=1e-12)
    median = quantile(compiled, 0, 0.5).item()
    np.testing.assert_allclose(weighted("cdf", median), 0.5, rtol=1e-12)
    drawn = sample(compiled, 20_000, seed=0)[:, 0].numpy()
    below = (drawn < median).mean()
    assert abs(below - 0.5) < 4 * 0.5 / np.sqrt(len(drawn))


def test_gradients_of_a_declared_distribution() -> None:
    compiled = _mixture()
    (loc,) = compiled.parameters()
    x = 0.7
    compiled(torch.tensor([[x]], dtype=torch.float64)).sum().backward()
    densities = np.array([stats.logistic(*pair).pdf(x) for pair in zip(LOC, SCALE, strict=True)])
    slopes = np.tanh((x - LOC) / (2 * SCALE)) / SCALE  # of log densities, by loc
    np.testing.assert_allclose(
        loc.grad.numpy().reshape(-1), WEIGHTS * densities * slopes / (WEIGHTS @ densities), rtol=1e-12
    )


def test_the_constructor_of_a_declared_distribution() -> None:
    check_constructor(CASES[0])
    signature = inspect.signature(LogisticLayer)
    assert list(signature.parameters) == ["scope", "num_output_units", "loc", "scale", "loc_factory", "scale_factory"]
    assert "loc: `(K,)` centres; standard normal draws by default." in str(inspect.getdoc(LogisticLayer))
    for wrong, message in (
        ({"shape": 1}, r"LogisticLayer.__init__\(\) got an unexpected keyword argument 'shape'"),
        ({"num_output_units": 2}, "multiple values"),
    ):
        with pytest.raises(TypeError, match=message):
            LogisticLayer([0], 2, **wrong)
    assert LogisticLayer.row.distribution.parameters == ("loc", "scale")


def test_declared_layers_are_frozen_and_compared_by_identity() -> None:
    layer = LogisticLayer([0], 2)
    with pytest.raises(FrozenInstanceError, match="cannot assign to field 'loc'"):
        layer.loc = Parameter.from_input(ConstantParameter(2, value=0.0))
    with pytest.raises(FrozenInstanceError, match="cannot delete field 'scale'"):
        del layer.scale
    for other in (copy.copy(layer), copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        assert (other == layer, other.config, len({layer, other})) == (False, layer.config, 2)
    assert pickle.loads(pickle.dumps(LogisticLayer.row)).body is LogisticLayer.row.body


class _Steps(UnivariateLayer):
    """Tables of states, with a setting, an optional parameter, and a static function that others name."""

    num_states: int = setting("how many states")
    slope: Parameter = unit_parameter(normal, "slopes")
    shift: Parameter | None = unit_parameter(None, "shifts, where there are any")
    domain = property(lambda self: finite(self.num_states))

    double = staticmethod(lambda slope: 2.0 * slope)

    @staticmethod
    def table(xp: Any, double: Any, shift: Any, num_states: int) -> Any:
        logs = double * xp.astype(xp.arange(num_states), double.dtype)
        logs = logs if shift is None else logs + shift
        return states.from_logs(xp, logs - xp.log(xp.sum(xp.exp(logs), axis=-1, keepdims=True)))


@pytest.mark.parametrize("shift", [None, 3.0])
def test_settings_optional_parameters_and_functions_that_others_name(shift: float | None) -> None:
    given = None if shift is None else ConstantParameter(1, value=shift)
    layer = _Steps([0], 1, num_states=4, slope=ConstantParameter(1, value=0.25), shift=given)
    assert list(layer.params) == ["slope", "shift"][: 1 if shift is None else 2]
    assert (layer.config["num_states"], layer.domain) == (4, finite(4))
    context = PipelineContext()
    context.add_layer_compilation_rule(_Steps.row)
    compiled = context.compile(Circuit([layer], {}, [layer]))
    masses = np.exp(0.5 * np.arange(4))
    values = compiled(torch.arange(4)[:, None])[:, 0, 0].exp().numpy()
    np.testing.assert_allclose(values, masses / masses.sum(), rtol=1e-6)
    with pytest.raises(TypeError, match="missing 1 required keyword-only argument: 'num_states'"):
        _Steps([0], 1)


def test_an_argument_that_names_nothing_is_refused_where_the_class_is_made() -> None:
    with pytest.raises(GraphError, match=r"Wrong.log_density takes 'scale', which is none of its parameters \(loc\)"):

        class Wrong(UnivariateLayer):
            loc: Parameter = unit_parameter(normal, "centres")
            domain = REALS
            log_density = staticmethod(lambda x, loc, scale: x - loc - scale)


def test_a_formula_that_reads_itself_and_a_reserved_name_are_refused() -> None:
    with pytest.raises(GraphError, match=r"Wrong\.width reads itself"):

        class Wrong(UnivariateLayer):
            domain = REALS
            width = staticmethod(lambda height: height)
            height = staticmethod(lambda width: width)
            log_density = staticmethod(lambda x, width: x - width)

    with pytest.raises(GraphError, match="no parameter or setting can be called 'x'"):

        class Other(UnivariateLayer):
            x: Parameter = unit_parameter(normal, "centres")

    with pytest.raises(GraphError, match="no parameter or setting can be called 'variance'"):

        class Another(UnivariateLayer):
            variance: Parameter = unit_parameter(normal, "spreads")
            domain = REALS
            log_density = staticmethod(lambda x, variance: x - variance)


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "no_static_function": ({"log_density": lambda x, loc: x - loc}, r"log_density is <function .*@staticmethod"),
    "by_position": ({"log_density": staticmethod(lambda x, /: x)}, "'x' cannot be given by name"),
    "any_arguments": ({"log_density": staticmethod(lambda **given: given)}, "'given' cannot be given by name"),
    "no_signature": ({"log_density": staticmethod(max)}, "whose arguments have no names"),
    "no_function": ({"mode": staticmethod(cast("Any", 3))}, r"Wrong\.mode is 3"),
    "no_parameters": ({"loc": None, "log_density": staticmethod(lambda x: -x)}, "has no parameters; declare one"),
    "in_place_of_nothing": (
        {"other": unit_parameter(None, "no", instead_of="lo")},
        r"Wrong\.other is instead of 'lo', which is none of its parameters \(other, loc\)",
    ),
    "a_logarithm_twice": (
        {"log_loc": unit_parameter(normal, "no")},
        "'log_loc' is made of the parameter 'loc' already",
    ),
    "a_factory_twice": ({"loc_factory": setting("no", 3)}, "'loc_factory' is made of the parameter 'loc' already"),
    "an_unknown_end": ({"increasing": ("high",)}, "increasing names 'high', which is none of its parameters"),
    **{
        f"called_{name}": ({name: unit_parameter(normal, "no")}, f"can be called '{name}'")
        for name in ("row", "self", "check", "settings", "params", "num_variables", "fold_settings")
    },
}


@pytest.mark.parametrize(("members", "message"), WRONG.values(), ids=WRONG)
def test_wrong_declarations_are_refused_where_the_class_is_made(members: dict[str, Any], message: str) -> None:
    right = {
        "loc": unit_parameter(normal, "centres"),
        "domain": REALS,
        "log_density": staticmethod(lambda xp, x, loc: -xp.abs(x - loc)),
    }
    type("Right", (UnivariateLayer,), dict(right))
    with pytest.raises(GraphError, match=message):
        type("Wrong", (UnivariateLayer,), {**members, **{key: one for key, one in right.items() if key not in members}})


def TWO_STATES(xp: Any, loc: Any) -> Any:  # noqa: N802 - data of the cases below
    """A table of two states."""
    return states.from_logs(xp, xp.concat([-loc, loc], axis=-1))


RETURNS: dict[str, tuple[dict[str, Any], Any, str]] = {
    "none": ({"log_density": lambda x, loc: None}, lambda circuit, x: circuit(x), "Wrong.log_density gave None"),  # noqa: ARG005
    "draws": (
        {"sample": lambda uniforms, loc: uniforms[..., 0] + loc[..., 0]},
        lambda circuit, _: sample(circuit, 2),
        r"Wrong.sample gave an array of shape \(1, b\), expected \(F, B, 1\) with F = 1, B = b; an axis may",
    ),
    "a_number": (
        {"expectation": lambda: 0.0, "variance": lambda loc: loc},
        variance,
        r"Wrong.expectation gave float 0.0, expected an array \(F, K\) with F = 1, K = 1; return one",
    ),
    **{
        name: (formulas, lambda circuit, x: circuit(x), message)
        for name, formulas, message in (
            ("whole_numbers", {"log_density": lambda xp, x, loc: xp.astype(x - loc, xp.int64)}, "numbers of int64"),
            ("truths", {"log_density": lambda x, loc: x > loc}, "numbers of bool, expected floats"),
            ("a_sum", {"log_density": lambda xp, x, loc: xp.sum(x - loc)}, r"of shape \(\), expected \(F, B, K\)"),
            (
                "a_turned_array",
                {"log_density": lambda xp, x, loc: xp.matrix_transpose(x - loc)},
                r"of shape \(1, 1, b\)",
            ),
            ("a_total_of_folds", {"log_total": lambda xp, loc: xp.sum(loc)}, r"of shape \(\), expected \(F, 1, K\)"),
        )
    },
    **{
        f"a_table_{name}": (
            {"table": table, "log_density": None, "domain": domain},
            lambda circuit, x: circuit(x),
            message,
        )
        for name, table, domain, message in (
            ("of_reals", TWO_STATES, REALS, "Wrong.table is of states .* and its domain is .*take finite"),
            ("from_one", TWO_STATES, Domain("die", "no die", "roll", 1, 2, whole=True), "states that count from 0"),
            ("of_too_few_states", TWO_STATES, finite(3), r"of shape \(1, 1, 2\), expected .* C = 3"),
            ("that_is_an_array", lambda loc: loc, finite(1), "Wrong.table gave Tracer, expected a Weight"),
        )
    },
    "an_interval": (
        {"interval": lambda xp, lower: xp.sum(lower)},
        lambda circuit, x: probability(circuit, 0 * x, x),
        r"Wrong.interval gave an array of shape \(\)",
    ),
    "a_mode": (
        {"mode": lambda xp, loc: xp.sum(loc)},
        mpe,
        r"Wrong.mode gave an array of shape \(\), expected \(F, K\)",
    ),
}


@pytest.mark.parametrize(("formulas", "query", "message"), RETURNS.values(), ids=RETURNS)
def test_what_a_formula_returns_is_checked(formulas: dict[str, Any], query: Any, message: str) -> None:
    members = {"loc": unit_parameter(normal, "centres"), "domain": REALS, "log_density": lambda x, loc: x - loc}
    members = {key: one for key, one in (members | formulas).items() if one is not None}
    kind: Any = type(
        "Wrong", (UnivariateLayer,), {k: staticmethod(v) if callable(v) else v for k, v in members.items()}
    )
    context = PipelineContext()
    context.add_layer_compilation_rule(kind.row)
    layer = kind([0], 1)
    with pytest.raises(PlicaError, match=message):
        query(context.compile(Circuit([layer], {}, [layer])), torch.full((1, 1), torch.nan))


def test_a_layer_without_parameters_is_refused() -> None:
    class Wrong(UnivariateLayer):
        loc: Parameter = unit_parameter(None, "centres")
        domain = REALS
        log_density = staticmethod(lambda x: -x)

    with pytest.raises(InputError, match="Wrong has no parameters; give one of loc"):
        Wrong([0], 1)


def test_a_formula_that_is_missing_or_unsupported_is_refused_by_name() -> None:
    class Cauchy(UnivariateLayer):
        loc: Parameter = unit_parameter(normal, "centres")
        domain = REALS
        expectation = unsupported("tails are too heavy")
        log_density = staticmethod(lambda xp, x, loc: -xp.log1p(xp.square(x - loc)) - np.log(np.pi))

    context = PipelineContext()
    context.add_layer_compilation_rule(Cauchy.row)
    layer = Cauchy([0], 1)
    circuit = Circuit([layer], {}, [layer])
    compiled, missing = context.compile(circuit), torch.full((1, 1), torch.nan)
    with pytest.raises(UnsupportedError, match="tails are too heavy"):
        mean(compiled, missing)
    with pytest.raises(UnsupportedError, match="its class has no 'sample'"):
        sample(compiled, 1)
    with pytest.raises(UnsupportedError, match="its class has no 'mode' and no 'log_maximum'"):
        mpe(compiled, missing)
    with pytest.raises(UnsupportedError, match=r"call context.add_layer_compilation_rule\(Cauchy.row\)"):
        PipelineContext().compile(circuit)


def test_a_class_without_a_domain_is_abstract() -> None:
    class Nowhere(UnivariateLayer):
        loc: Parameter = unit_parameter(normal, "centres")
        log_density = staticmethod(lambda x, loc: x - loc)

    with pytest.raises(TypeError, match=r"abstract method '?domain"):
        Nowhere([0], 1)  # type: ignore[abstract]
