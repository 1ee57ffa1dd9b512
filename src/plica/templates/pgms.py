"""Builds probabilistic graphical models as circuits: independent variables, and hidden Markov models.

>>> coin = {"num_categories": 2}
>>> fully_factorized(3, input_layer_kwargs=coin)
Circuit(4 layers, 3 variables, 1 output(s) of 1 unit(s))
>>> hmm(range(100), num_latent_states=4, input_layer_kwargs=coin, homogeneous=True)
Circuit(299 layers, 100 variables, 1 output(s) of 1 unit(s))
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from plica.arguments import flag, is_count, is_permutation, listed, shown
from plica.errors import InputError, ShapeError
from plica.symbolic.circuit import Circuit
from plica.symbolic.layers import HadamardLayer, InputLayer, Layer, SumLayer
from plica.symbolic.scope import Scope
from plica.templates.inputs import input_factory
from plica.templates.parameterization import InputFactory, Parameterization, sum_weight_factories

Inner: TypeAlias = dict[Layer, Sequence[Layer]]
Settings: TypeAlias = Mapping[str, Any]


def fully_factorized(
    num_variables: int,
    input_layer: str = "categorical",
    input_params: Mapping[str, Parameterization] | None = None,
    input_layer_kwargs: Settings | Sequence[Settings] | None = None,
) -> Circuit:
    """Independent variables: one input layer of one unit for each, and their product if there are several.

    Args:
        num_variables: The number of variables.
        input_layer: One of `plica.symbolic.layers.DISTRIBUTIONS`.
        input_params: How to make the parameters of the input layers, by name.
        input_layer_kwargs: Keywords of the input layers, such as `{"num_categories": 3}`, or one such mapping for each.

    Raises:
        ShapeError: There is no variable.
        InputError: A name or a setting is not known, or there are not as many settings as variables.
    """
    if not is_count(num_variables):
        raise ShapeError(
            f"fully_factorized: expected at least one variable, found num_variables={shown(num_variables)}"
        )
    factories = _factories("fully_factorized", range(num_variables), input_layer, input_layer_kwargs, input_params)
    inputs = [factory(Scope([variable]), 1) for variable, factory in factories.items()]
    if len(inputs) == 1:
        return Circuit(inputs, {}, inputs)
    product = HadamardLayer(1, num_variables)
    return Circuit([*inputs, product], {product: inputs}, [product])


def hmm(
    ordering: Iterable[int],
    input_layer: str = "categorical",
    num_latent_states: int = 1,
    input_params: Mapping[str, Parameterization] | None = None,
    input_layer_kwargs: Settings | Sequence[Settings] | None = None,
    weight_param: Parameterization | None = None,
    *,
    homogeneous: bool = False,
) -> Circuit:
    """A hidden Markov model: a chain of latent states, each of which emits one variable.

    The circuit follows the chain from its end: `b_t[i] = e_t[i] * sum over j of A_t[i, j] b_{t+1}[j]`. Unit i of the
    input layer `e_t` is the distribution of the variable of step t in state i; row i of `A_t` says how probable each
    next state is after i. The last sum layer weighs `b_0` with the probabilities of the first state.

    Args:
        ordering: The variables in the order of the steps: a permutation of 0..n-1.
        input_layer: One of `plica.symbolic.layers.DISTRIBUTIONS`.
        num_latent_states: The number of states.
        input_params: How to make the parameters of the input layers, by name.
        input_layer_kwargs: Keywords of the input layers, such as `{"num_categories": 3}`, or one such mapping for each
            step, in the order of the steps.
        weight_param: How to make the transitions `(K, K)` and the first probabilities `(1, K)`; softmax of normal draws
            by default.
        homogeneous: Whether all steps share one transition and one emission.

    Raises:
        InputError: `ordering` is no permutation, a name or a setting is not known, there are not as many settings as
            steps, or `homogeneous` is true and each step has its settings.

    Source: Rabiner, "A tutorial on hidden Markov models", 1989, equations 24 and 25 (the backward procedure).
    """
    steps = list(listed(ordering))
    if not is_permutation(steps, len(steps) or 1):
        shown_ordering = _shown(steps) if steps else shown(ordering)
        advice = f"; for {ordering} steps in a row pass range({ordering})" if isinstance(ordering, int) else ""
        raise InputError(
            f"hmm: ordering must be a permutation of 0..n-1, each variable once; found {shown_ordering}{advice}"
        )
    emits = _factories("hmm", steps, input_layer, input_layer_kwargs, input_params)
    weights, _ = sum_weight_factories(weight_param, use_mixing_weights=False)
    units = num_latent_states

    def move() -> SumLayer:
        return SumLayer(units, units, weight_factory=weights)

    if flag("hmm", "homogeneous", homogeneous):
        if len(set(emits.values())) > 1:
            raise InputError("hmm: steps that share one emission (homogeneous=True) take one mapping of settings")
        shared = _shared_emission(emits[steps[-1]](Scope([steps[-1]]), units))
        emits, move = dict.fromkeys(steps, shared), _shared_transition(move)
    state: Layer = emits[steps[-1]](Scope([steps[-1]]), units)
    layers, inner = [state], Inner()
    for variable in reversed(steps[:-1]):
        emission, moved, both = emits[variable](Scope([variable]), units), move(), HadamardLayer(units, 2)
        inner |= {moved: [state], both: [emission, moved]}
        layers += [emission, moved, both]
        state = both
    start = SumLayer(units, 1, weight_factory=weights)
    return Circuit([*layers, start], inner | {start: [state]}, [start])


def _factories(
    name: str,
    variables: Sequence[int],
    input_layer: str,
    settings: Settings | Sequence[Settings] | None,
    params: Mapping[str, Parameterization] | None,
) -> dict[int, InputFactory]:
    """The input factory of each variable: the same for all, or each with its own settings."""
    if settings is None or isinstance(settings, Mapping) or not isinstance(settings, Sequence):
        return dict.fromkeys(variables, input_factory(input_layer, settings, params))
    if len(settings) != len(variables):
        raise InputError(
            f"{name}: input_layer_kwargs holds {len(settings)} settings, expected one for each of the "
            f"{len(variables)} variables, or a mapping for all of them"
        )
    pairs = zip(variables, settings, strict=True)
    return {variable: input_factory(input_layer, own, params) for variable, own in pairs}


def _shared_emission(first: InputLayer) -> InputFactory:
    """A factory of layers like the first with references to its parameters; for the first scope, the first itself."""

    def factory(scope: Scope, units: int) -> InputLayer:  # noqa: ARG001 (as many as the first)
        if scope == first.scope:
            return first
        make: Callable[..., InputLayer] = type(first)
        references = {name: parameter.ref() for name, parameter in first.params.items()}
        return make(**first.config | {"scope": scope}, **references)

    return factory


def _shared_transition(make: Callable[[], SumLayer]) -> Callable[[], SumLayer]:
    """A factory of one layer, then of others with references to its weight."""
    layers: list[SumLayer] = []

    def factory() -> SumLayer:
        layers.append(layers[0].copyref() if layers else make())
        return layers[-1]

    return factory


def _shown(steps: list[int]) -> str:
    return str(steps) if len(steps) < 9 else f"{str(steps[:8])[:-1]}, ...] of {len(steps)}"
