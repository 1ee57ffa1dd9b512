import copy
import dataclasses
import pickle
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from plica.errors import DTypeError, GraphError, InputError, ShapeError, StructuralPropertyError
from plica.symbolic.circuit import Circuit, CircuitOperation, are_compatible
from plica.symbolic.domains import POSITIVE_REALS, REALS, finite
from plica.symbolic.layers import (
    CategoricalLayer,
    ConstantValueLayer,
    GaussianLayer,
    HadamardLayer,
    InputLayer,
    Layer,
    ProductLayer,
    SumLayer,
)
from plica.symbolic.parameters import ConstantParameter, Parameter
from plica.symbolic.scope import Scope
from tests.harness.own_layers import NeighbourSum
from tests.harness.work import count_calls


def coin(variable: int, units: int = 2) -> CategoricalLayer:
    return CategoricalLayer([variable], units, num_categories=2)


def chained(*products: tuple[int, ...], variables: int = 3) -> Circuit:
    """A circuit whose products join these layers, numbered inputs first; the last product is summed."""
    layers: list[Layer] = [coin(v) for v in range(variables)]
    in_layers: dict[Layer, list[Layer]] = {}
    for parts in products:
        product = HadamardLayer(2, len(parts))
        in_layers[product] = [layers[i] for i in parts]
        layers.append(product)
    total = SumLayer(2, 1)
    return Circuit([*layers, total], in_layers | {total: [layers[-1]]}, [total])


def test_a_small_circuit_and_its_views() -> None:
    x, y, product, total = coin(0), coin(1), HadamardLayer(2), SumLayer(2, 1)
    circuit = Circuit([total, product, y, x], {total: [product], product: [x, y]}, [total])
    assert circuit.layers == (x, y, product, total) == circuit.topological_ordering()
    assert circuit.layerwise_topological_ordering() == ((x, y), (product,), (total,))
    assert circuit.outputs == (total,)
    assert circuit.input_layers == (x, y)
    assert circuit.inner_layers == (product, total)
    assert (circuit.sum_layers, circuit.product_layers) == ((total,), (product,))
    assert circuit.layer_inputs(product) == (x, y) == circuit.layers_inputs[product]
    assert circuit.layer_outputs(x) == (product,) == circuit.layers_outputs[x]
    assert circuit.layer_inputs(x) == ()
    assert circuit.layer_scope(x) == Scope([0])
    assert (circuit.scope, circuit.num_variables) == (Scope([0, 1]), 2)
    assert [circuit.layer_name(layer) for layer in circuit.layers] == [
        "CategoricalLayer(0, scope={0}, 2)",
        "CategoricalLayer(1, scope={1}, 2)",
        "HadamardLayer(2, arity=2, 2 -> 2)",
        "SumLayer(3, arity=1, 2 -> 1)",
    ]
    assert repr(circuit) == "Circuit(4 layers, 2 variables, 1 output(s) of 1 unit(s))"


def test_lists_of_layers_are_iterators_with_an_index_and_a_length() -> None:
    x, y, product, total = coin(0), coin(1), HadamardLayer(2), SumLayer(2, 1)
    circuit = Circuit([x, y, product, total], {total: [product], product: [x, y]}, [total])
    assert circuit.inputs == circuit.input_layers
    expected = {
        "layers": (x, y, product, total),
        "inputs": (x, y),
        "outputs": (total,),
        "input_layers": (x, y),
        "inner_layers": (product, total),
        "sum_layers": (total,),
        "product_layers": (product,),
    }
    for name, layers in expected.items():
        found = getattr(circuit, name)
        assert next(getattr(circuit, name)) is next(getattr(circuit, name)) is layers[0], "each access starts over"
        assert tuple(next(found) for _ in layers) == layers
        assert next(found, None) is None
        assert (len(found), found[-1], found[1:], tuple(found)) == (len(layers), layers[-1], layers[1:], layers)


def test_layers_in_order_keep_their_order() -> None:
    layers = [coin(2), coin(0), coin(1)]
    assert Circuit(layers, {}, layers).layers == tuple(layers)


def test_subgraph_shares_layers() -> None:
    circuit = chained((0, 1), (3, 2))
    part = circuit.subgraph(circuit.product_layers[0])
    assert part.layers == (*circuit.input_layers[:2], circuit.product_layers[0])
    assert part.scope == Scope([0, 1])
    with pytest.raises(GraphError, match="is not a layer of this circuit"):
        part.subgraph(circuit.outputs[0])


def test_remembers_its_operation() -> None:
    operand = chained((0, 1))
    layer = coin(0)
    operation = CircuitOperation("integrate", (operand,), {"scope": Scope([1])})
    circuit = Circuit.from_operation([layer], {}, [layer], operation=operation)
    assert circuit.operation is operation
    assert operand.operation is None


# circuit, (smooth, decomposable, structured decomposable, omni-compatible)
def unsmooth() -> Circuit:
    x, y, total = coin(0), coin(1), SumLayer(2, 1, 2)
    return Circuit([x, y, total], {total: [x, y]}, [total])


def two_orders(*orders: tuple[int, int, int]) -> Circuit:
    """A sum over products ((a b) c), one for each of `orders`."""
    inputs = [coin(v) for v in range(3)]
    in_layers: dict[Layer, list[Layer]] = {}
    tops: list[Layer] = []
    for a, b, c in orders:
        pair, mixed, top = HadamardLayer(2), SumLayer(2, 2), HadamardLayer(2)
        in_layers |= {pair: [inputs[a], inputs[b]], mixed: [pair], top: [mixed, inputs[c]]}
        tops.append(top)
    total = SumLayer(2, 1, len(orders))
    in_layers[total] = tops
    return Circuit([*inputs, *in_layers], in_layers, [total])


@pytest.mark.parametrize(
    ("circuit", "expected"),
    [
        (chained((0, 1, 2)), (True, True, True, True)),
        (chained((0, 1), (3, 2)), (True, True, True, True)),
        (two_orders((0, 1, 2)), (True, True, True, False)),
        (two_orders((0, 1, 2), (1, 0, 2)), (True, True, True, False)),
        (two_orders((0, 1, 2), (1, 2, 0)), (True, True, False, False)),
        (unsmooth(), (False, True, False, False)),
        (chained((0, 0)), (True, False, False, False)),
        (chained((0, 1), (1, 3)), (True, False, False, False)),
    ],
)
def test_structural_properties(circuit: Circuit, expected: tuple[bool, ...]) -> None:
    assert dataclasses.astuple(circuit.properties) == expected
    assert circuit.properties is circuit.properties


def test_compatibility() -> None:
    left, right = two_orders((0, 1, 2)), two_orders((1, 2, 0))
    assert are_compatible(left, left)
    assert are_compatible(left, two_orders((1, 0, 2)))
    assert not are_compatible(left, right)
    assert are_compatible(left, chained((0, 1, 2)))
    assert not are_compatible(left, unsmooth())
    assert are_compatible(left, chained((0, 1)))


def test_check_names_the_layer_that_offends() -> None:
    chained((0, 1)).check_smooth_and_decomposable("marginalization")
    with pytest.raises(StructuralPropertyError) as smooth:
        unsmooth().check_smooth_and_decomposable("marginalization")
    assert str(smooth.value) == (
        "marginalization needs a smooth circuit, but SumLayer(2, arity=2, 2 -> 1) sums inputs of different scopes: "
        "CategoricalLayer(0, scope={0}, 2) has scope {0}; CategoricalLayer(1, scope={1}, 2) has scope {1}. "
        "Multiply each input by input layers over the variables that it lacks."
    )
    with pytest.raises(
        StructuralPropertyError,
        match=r"sampling needs a decomposable circuit, but HadamardLayer\(4, .*has scope \{0, 1\}",
    ):
        chained((0, 1), (1, 3)).check_smooth_and_decomposable("sampling")


@dataclasses.dataclass(frozen=True)
class Equal(ProductLayer):
    """A layer of one's own that forgot `eq=False`."""

    num_input_units: int
    arity: int = 2
    num_output_units: int = 2

    @property
    def config(self) -> dict[str, int]:
        return dataclasses.asdict(self)


X, Y, WIDE = coin(0), coin(1), coin(2, units=3)
PRODUCT, SUM, OTHER = HadamardLayer(2), SumLayer(2, 1), SumLayer(2, 2)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (
            lambda: Circuit([X, SUM, OTHER], {OTHER: [OTHER], SUM: [OTHER]}, [SUM]),
            GraphError,
            r"cycle of 1 node\(s\)",
        ),
        (
            lambda: Circuit([X, WIDE, PRODUCT], {PRODUCT: [X, WIDE]}, [PRODUCT]),
            ShapeError,
            r"HadamardLayer\(2, arity=2, 2 -> 2\) expects inputs of 2 unit\(s\), found 3 in "
            r"CategoricalLayer\(1, scope=\{2\}, 3\)",
        ),
        (
            lambda: Circuit([X, PRODUCT], {PRODUCT: [X]}, [PRODUCT]),
            ShapeError,
            r"HadamardLayer\(1, .* expects 2 input\(s\), found 1; construct it with arity=1",
        ),
        (
            lambda: Circuit([X, PRODUCT], {PRODUCT: [X, Y]}, [PRODUCT]),
            GraphError,
            r"the input CategoricalLayer\(scope=\{1\}, 2\), which is not among the layers",
        ),
        (lambda: Circuit([X], {SUM: [X]}, [X]), GraphError, r"names itself, which is not among the layers: SumLayer"),
        (lambda: Circuit([X, SUM], {}, [SUM]), GraphError, r"SumLayer\(1, arity=1, 2 -> 1\) has no inputs"),
        (
            lambda: Circuit([X, Y], {X: [Y]}, [X]),
            GraphError,
            r"CategoricalLayer\(1, .* is an input layer but is given 1",
        ),
        (lambda: Circuit([X], {}, [Y]), GraphError, r"the output CategoricalLayer\(scope=\{1\}, 2\) is not among"),
        (lambda: Circuit([X], {}, []), GraphError, "there are no outputs"),
        (lambda: Circuit([X, WIDE], {}, [X, WIDE]), ShapeError, "outputs need one number of units, found 2 in"),
        (lambda: Circuit([X, "sum"], {}, [X]), DTypeError, "expected layers, found 'sum'"),  # type: ignore[list-item]
        (lambda: Circuit([Equal(2)], {}, [X]), DTypeError, r"but Equal defines equality; declare it with .*eq=False"),
    ],
)
def test_refuses(make, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        make()


def repeated(length: int, arity: int) -> Circuit:
    """Sums on top of each other, each reading the one below `arity` times."""
    last: Layer = coin(0, units=1)
    layers: list[Layer] = [last]
    in_layers: dict[Layer, list[Layer]] = {}
    for _ in range(length):
        layer = SumLayer(1, 1, arity)
        in_layers[layer] = [last] * arity
        layers.append(layer)
        last = layer
    circuit = Circuit(layers[::-1], in_layers, [last])
    assert circuit.properties.omni_compatible
    return circuit


@pytest.mark.parametrize("arity", [1, 2])
def test_work_grows_with_the_layers_and_not_with_the_paths(arity: int) -> None:
    few, many = (count_calls(partial(repeated, length, arity)) for length in (30, 60))
    assert many < 2.2 * few


def test_sixty_doublings_are_sixty_one_layers() -> None:
    circuit = repeated(60, 2)
    assert len(circuit.layers) == 61
    assert circuit.layer_outputs(circuit.layers[0]) == (circuit.layers[1],) * 2


def test_topological_orders_are_iterators() -> None:
    circuit = chained((0, 1), (2, 3))
    for order in (circuit.topological_ordering(), circuit.layerwise_topological_ordering()):
        assert isinstance(order, Iterator)
        first, second = next(order), next(order)
        assert (first, second) == (order[0], order[1])
        assert len(order) == len(list(order))
    assert next(circuit.topological_ordering()) is circuit.layers[0]
    assert next(circuit.layerwise_topological_ordering()) == tuple(circuit.input_layers)


def test_the_data_scope_is_that_of_the_operands() -> None:
    whole = chained((0, 1), (2, 3))
    part = chained((0, 1), variables=2)
    assert (whole.data_scope, part.data_scope) == (Scope(range(3)), Scope(range(2)))
    layers, edges, outputs = part.layers, part.layers_inputs, part.outputs
    derived = Circuit(layers, edges, outputs, operation=CircuitOperation("integrate", (whole,)))
    assert (derived.scope, derived.data_scope) == (Scope(range(2)), Scope(range(3)))
    assert derived.live is derived
    unread = Circuit([*layers, coin(9)], edges, outputs, operation=CircuitOperation("integrate", (whole,)))
    assert unread.live.data_scope == unread.data_scope == Scope(range(3))
    assert derived.subgraph(*outputs).data_scope == Scope(range(2)), "a circuit of its own"
    again = Circuit(layers, edges, outputs, operation=CircuitOperation("copy", (derived, part)))
    assert again.data_scope == Scope(range(3))
    given = Circuit.from_operation(
        layers, edges, outputs, operation=CircuitOperation("rename", (whole,)), data_scope=Scope([0, 1, 7])
    )
    assert given.data_scope == Scope([0, 1, 7])


def test_a_circuit_without_variables_has_no_data() -> None:
    constant = ConstantValueLayer(1, value=2.0)
    operation = CircuitOperation("integrate", (chained((0, 1), (2, 3)),))
    total = Circuit([constant], {}, [constant], operation=operation)
    assert total.data_scope == total.scope == Scope([])
    part = chained((0, 1), variables=2)
    both = Circuit(part.layers, part.layers_inputs, part.outputs, operation=CircuitOperation("multiply", (part, total)))
    assert both.data_scope == Scope(range(2))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: Circuit(*_of(chained((0, 1), (2, 3))), data_scope=Scope([0, 5])),
            r"depend on the variable\(s\) .*\{1, 2\}.*, which data_scope .*\{0, 5\}.* lacks; add them",
        ),
        (
            lambda: Circuit(*_of(bag_of_constants()), data_scope=Scope([0])),
            r"data_scope is .*\{0\}.*, but the outputs depend on no variable",
        ),
    ],
)
def test_wrong_data_scopes(make: Callable[[], Circuit], message: str) -> None:
    with pytest.raises(InputError, match=message):
        make()


def _of(circuit: Circuit) -> tuple[Any, Any, Any]:
    return circuit.layers, circuit.layers_inputs, circuit.outputs


def bag_of_constants() -> Circuit:
    layer = ConstantValueLayer(1, value=2.0)
    return Circuit([layer], {}, [layer])


def test_deep_chains_need_no_recursion() -> None:
    circuit = repeated(20_000, 1)
    assert len(circuit.layerwise_topological_ordering()) == 20_001
    assert all(circuit.layer_scope(layer) is circuit.scope for layer in circuit.layers)


def test_copies_and_pickles() -> None:
    circuit = two_orders((0, 1, 2), (1, 2, 0))
    assert copy.deepcopy(circuit) is circuit, "immutable"
    other = pickle.loads(pickle.dumps(circuit))
    assert [repr(layer) for layer in other.layers] == [repr(layer) for layer in circuit.layers]
    assert other.properties == circuit.properties
    assert not any(layer in circuit.layers_inputs for layer in other.layers)


def test_sums_of_ones_own_must_be_smooth_too() -> None:
    inputs = [CategoricalLayer([v], 3, num_categories=2) for v in range(2)]
    total = NeighbourSum(3, 2, Parameter.from_input(ConstantParameter(3, 4, value=0.5)))
    circuit = Circuit([*inputs, total], {total: inputs}, [total])
    assert not circuit.is_smooth
    with pytest.raises(StructuralPropertyError, match=r"smooth circuit, but NeighbourSum\(2, .* sums inputs"):
        circuit.check_smooth_and_decomposable("this")


def test_domains_of_variables() -> None:
    inputs = [CategoricalLayer([0], 2, num_categories=size) for size in (5, 3)]
    real, total, product = GaussianLayer([2], 2), SumLayer(2, 2, 2), HadamardLayer(2, 2)
    circuit = Circuit([*inputs, real, total, product], {total: inputs, product: [total, real]}, [product])
    assert circuit.domains == {0: finite(3), 2: REALS}
    assert circuit.live is circuit


@dataclasses.dataclass(frozen=True, eq=False)
class Read(InputLayer):
    """A layer of a given domain."""

    scope: Scope
    num_output_units: int
    domain: Any

    @property
    def config(self) -> dict[str, object]:
        return {"scope": self.scope, "num_output_units": self.num_output_units, "domain": self.domain}

    @property
    def params(self) -> dict[str, Parameter]:
        return {}


def test_domains_without_a_common_value_are_refused() -> None:
    first, second = CategoricalLayer([4], 1, num_categories=1), Read(Scope([4]), 1, POSITIVE_REALS)
    total = SumLayer(1, 1, 2)
    message = (
        r"Circuit: variable 4 is read by CategoricalLayer\(0, .*\) and by Read\(1, .*\), but no value is in both "
        r"domains, 1 state and positive real numbers; give one of them another variable"
    )
    with pytest.raises(InputError, match=message):
        Circuit([first, second, total], {total: [first, second]}, [total])
    assert Circuit([first, second], {}, [first]).domains == {4: finite(1)}


@pytest.mark.parametrize("domain", [None, 3, "reals"])
def test_a_layer_without_a_domain_is_refused(domain: object) -> None:
    layer = Read(Scope([0]), 1, domain)
    with pytest.raises(
        DTypeError, match=r"Circuit: Read\(0, .* which values.* `domain` .* such as REALS or finite\(3\)"
    ):
        Circuit([layer], {}, [layer])


def test_layers_that_no_output_depends_on_keep_their_place_and_decide_nothing() -> None:
    x, y, far = coin(0, 1), coin(1, 1), coin(9, 1)
    uneven, square, root = SumLayer(1, 1, 2), HadamardLayer(1, 2), SumLayer(1, 1)
    layers = [far, x, uneven, square, y, root]
    circuit = Circuit(layers, {uneven: [x, y], square: [x, x], root: [x]}, [root])
    assert len(circuit.layers) == 6
    assert circuit.scope == Scope([0])
    assert list(circuit.domains) == [0]
    assert circuit.is_smooth
    assert circuit.is_decomposable
    assert circuit.is_omni_compatible
    assert circuit.live.layers == (x, root)
    assert circuit.live.live is circuit.live
    assert circuit.layer_scope(far) == Scope([9])


def test_a_layer_is_replaced_and_all_others_are_shared() -> None:
    circuit = chained((0, 1), (3, 2))
    x, y = circuit.input_layers[:2]
    (inner, outer), (total,) = circuit.product_layers, circuit.sum_layers
    other = coin(0)
    changed = circuit.replace(x, other)
    assert {*changed.layers} == {*circuit.layers} - {x} | {other}
    assert changed.layer_inputs(inner) == (other, y)
    new_total = SumLayer(2, 3)
    assert circuit.replace(total, new_total).outputs == (new_total,)
    assert circuit.replace(total, new_total).layer_inputs(new_total) == (outer,)


def test_layers_that_only_a_replaced_layer_needed_are_left_out() -> None:
    x, y, unread = coin(0), coin(1), coin(5)
    product, total = HadamardLayer(2), SumLayer(2, 1)
    circuit = Circuit([x, y, unread, product, total], {product: [x, y], total: [product]}, [total])
    pair = coin(0)
    assert set(circuit.replace(product, pair).layers) == {pair, unread, total}
    assert circuit.replace(product, x).layer_inputs(total) == (x,)
    assert circuit.replace(unread, x).layers == (x, y, product, total)


def test_what_cannot_be_replaced_is_refused() -> None:
    circuit = chained((0, 1), (3, 2))
    with pytest.raises(GraphError, match=r"replace: .* is not a layer of this circuit"):
        circuit.replace(coin(0), coin(0))
    with pytest.raises(ShapeError, match="expects inputs of 2 unit"):
        circuit.replace(circuit.layers[0], coin(0, 3))
    no_layer: Any = 3
    with pytest.raises(DTypeError, match="expected layers, found 3"):
        circuit.replace(circuit.layers[0], no_layer)
    with pytest.raises(GraphError, match="cycle"):
        circuit.replace(circuit.layers[0], circuit.product_layers[0])
