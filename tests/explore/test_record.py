"""The data of the explorer: it fits its schema, and says what `explain`, the state dict and the circuit say."""

import json
from typing import Any

import numpy as np
import pytest
import torch

import plica
import plica.numpy as pnp
from plica.backend.torch.profile import profile
from plica.errors import DTypeError, InputError, StructuralPropertyError
from plica.explore import explore_record, schema
from plica.explore.tensors import summary
from plica.queries import mpe
from plica.symbolic.circuit import Circuit
from plica.symbolic.functional import multiply
from plica.symbolic.layers import CategoricalLayer, GaussianLayer, HadamardLayer, SumLayer
from plica.symbolic.parameters import ConstantParameter
from plica.templates.data_modalities import image_data
from tests.harness import complex_circuits
from tests.harness.json_schema import problems


def image(side: int = 4, units: int = 3) -> Circuit:
    return image_data(
        (1, side, side),
        "quad-tree-2",
        input_layer="categorical",
        num_values=5,
        num_input_units=units,
        sum_product_layer="cp",
        num_sum_units=units,
    )


@pytest.fixture(scope="module")
def compiled() -> Any:
    return plica.compile(image())


@pytest.fixture(scope="module")
def rows() -> Any:
    x = torch.randint(5, (3, 16), generator=torch.Generator().manual_seed(0)).double()
    x[1, 8:] = float("nan")
    return x


@pytest.fixture(scope="module")
def record(compiled, rows) -> dict[str, Any]:
    seconds = {part.name: part.seconds for part in profile(compiled, rows, rounds=1)}
    return explore_record(compiled, title="sixteen pixels", image_shape=(1, 4, 4), rows=rows.numpy(), seconds=seconds)


def program() -> Any:
    def summed(x, y):
        @plica.for_loop(0, 3)
        def grown(i, total):  # noqa: ARG001
            return total + x * y

        return grown(x)

    return plica.trace(summed, plica.spec("n"), plica.spec("n"))


def records(compiled: Any, record: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {
        "circuit": explore_record(compiled.symbolic),
        "compiled": explore_record(compiled),
        "rows": record,
        "program": explore_record(program()),
    }


@pytest.mark.parametrize("name", ["circuit", "compiled", "rows", "program"])
def test_records_fit_the_schema(compiled, record, name: str) -> None:
    value = json.loads(json.dumps(records(compiled, record)[name], allow_nan=False))
    assert problems(value, schema()) == []
    assert problems({**value, "version": 2}, schema())
    assert problems({**value, "more": 1}, schema())
    columns = [len(column) for name, column in value["stages"][0].items() if name in ("kind", "inputs", "settings")]
    assert set(columns) == {len(value["stages"][0]["kind"])}


def test_layers_are_where_explain_says(compiled, record) -> None:
    described, groups = record["stages"][0], record["groups"]
    for number, layer in enumerate(compiled.symbolic.layers):
        text = compiled.explain(layer)
        folds = described["folds"][number]
        for group, fold in zip(folds[::2], folds[1::2], strict=True):
            assert f"folded: fold {fold} of {record['stages'][2]['sizes'][group]} in group {group}," in text
            for equation in groups[group]["equations"]:
                assert f"  {equation}\n" in f"{text}\n"
        rules = [record["texts"][rule].partition(", ")[2] for rule in described["rules"][number]]
        assert all(rule in text for rule in rules)
        assert ("rewritten: by no rule" in text) == (not rules)
        for name, expression, _ in described["parameters"][number]:
            assert f"  {name}: Parameter({record['texts'][expression]})" in text
    assert record["text"] == compiled.explain()


def test_generated_lines_are_those_of_the_code(compiled, record) -> None:
    for group in record["groups"]:
        assert group["code"]
        assert "\n".join(f"    {line}" if line else "" for line in group["code"]) in compiled.code
    assert sum(group["seconds"] for group in record["groups"]) <= sum(record["seconds"].values())


def test_tensors_are_those_of_the_state_dict(compiled, record) -> None:
    state = compiled.state_dict()
    assert [tensor["key"] for tensor in record["tensors"]] == list(state)
    for tensor in record["tensors"]:
        values = state[tensor["key"]].double()
        assert tensor["shape"] == list(values.shape)
        assert sum(tensor["counts"]) == values.numel()
        assert tensor["mean"] == pytest.approx(float(values.mean()), rel=1e-4, abs=1e-5)
        assert tensor["range"] == pytest.approx([float(values.min()), float(values.max())], rel=1e-4)
        edges = np.linspace(float(values.min()), float(values.max()), len(tensor["counts"]) + 1)
        assert tensor["counts"][0] == int((values < edges[1]).sum())


def test_scopes_are_those_of_the_layers(compiled, record) -> None:
    circuit = compiled.symbolic
    for number, layer in enumerate(circuit.layers):
        runs = record["scopes"][record["stages"][0]["scope"][number]]
        pairs = zip(runs[::2], runs[1::2], strict=True)
        assert [first + i for first, length in pairs for i in range(length)] == list(circuit.layer_scope(layer))


def test_values_of_rows_are_those_of_the_circuit(compiled, record, rows) -> None:
    expected = compiled(rows)[:, 0, 0].tolist()
    output = record["stages"][0]["outputs"][0]
    assert [row["values"][output][0] for row in record["rows"]] == pytest.approx(expected, rel=1e-4)


def test_values_of_inner_layers_are_those_of_their_own_circuits(compiled, record, rows) -> None:
    circuit = compiled.symbolic
    tensors = compiled.state_dict()
    for number in (0, 20, 40):
        layer = circuit.layers[number]
        part = plica.compile(circuit.subgraph(layer))
        names = {key: name for name, key in zip(tensors, compiled.compiled.keys, strict=True)}
        part.load_state_dict({own: tensors[names[leaf]] for leaf, own in part.compiled.keys.items()})
        values = part(rows[:, : max(circuit.layer_scope(layer)) + 1])[:, 0].detach().numpy()
        assert np.asarray([row["values"][number] for row in record["rows"]]) == pytest.approx(
            values, rel=1e-4, abs=1e-5
        )


def test_states_flow_down_to_the_most_probable_explanation(compiled, record, rows) -> None:
    completed, _ = mpe(compiled, rows)
    assert [row["completed"] for row in record["rows"]] == completed.tolist()
    described = record["stages"][0]
    for row in record["rows"]:
        assert row["units"][described["outputs"][0]] == 0
        for number, unit in enumerate(row["units"]):
            assert -1 <= unit < described["units"][number]
            if described["kinds"][described["kind"][number]][1] == "product":
                assert all(row["units"][child] == unit for child in described["inputs"][number])


def test_impossible_rows_have_no_number() -> None:
    leaf = CategoricalLayer([0], 1, num_categories=2, probs=ConstantParameter(1, 2, value=np.asarray([[1.0, 0.0]])))
    circuit = plica.compile(Circuit([leaf], {}, [leaf]))
    assert explore_record(circuit, rows=[[0.0], [1.0]])["rows"][1]["values"] == [[None]]


def test_the_states_of_impossible_rows_are_refused() -> None:
    leaf = CategoricalLayer([0], 1, num_categories=2, probs=ConstantParameter(1, 2, value=np.asarray([[1.0, 0.0]])))
    circuit = plica.compile(Circuit([leaf], {}, [leaf]))
    record = explore_record(circuit, rows=[[0.0], [1.0]], texts=lambda x: [["a"] for _ in x])
    possible, impossible = record["rows"]
    assert possible["units"] == [0]
    assert "units" not in impossible
    assert "completed" not in impossible
    assert "probability 0" in impossible["note"]
    assert problems(json.loads(json.dumps(record, allow_nan=False)), schema()) == []


def test_numbers_that_are_not_finite_are_told_apart() -> None:
    weight = ConstantParameter(1, 1, value=np.asarray([[np.nan]]))
    leaf, total = GaussianLayer([0], 1), SumLayer(1, 1, weight=weight)
    circuit = plica.compile(Circuit([leaf, total], {total: [leaf]}, [total]))
    record = explore_record(circuit, rows=[[np.inf], [np.nan], [1234567.25]])
    assert [row["x"] for row in record["rows"]] == [["inf"], [None], [1234567.25]]
    assert [row["values"][0][0] for row in record["rows"]][:2] == [None, 0.0]
    assert [row["values"][1] for row in record["rows"]] == [["nan"], ["nan"], ["nan"]]
    assert problems(json.loads(json.dumps(record, allow_nan=False)), schema()) == []


def test_values_of_complex_circuits_have_both_parts() -> None:
    circuit, x = plica.compile(complex_circuits.circuit(), semiring="complex-lse-sum"), complex_circuits.data()
    record = explore_record(circuit, rows=x.numpy())
    output = record["stages"][0]["outputs"][0]
    expected = circuit(x)[:, 0, 0].tolist()
    values = [complex(str(row["values"][output][0]).replace("i", "j")) for row in record["rows"]]
    assert any(value.imag for value in values)
    assert values == pytest.approx(expected, rel=1e-4, abs=1e-5)
    assert any(tensor.get("sizes") for tensor in record["tensors"])
    assert problems(json.loads(json.dumps(record, allow_nan=False)), schema()) == []


def test_what_the_query_refuses_has_no_states() -> None:
    weight = ConstantParameter(1, 2, value=np.asarray([[-0.5, 1.5]]))
    leaf, total = CategoricalLayer([0], 2, num_categories=3), SumLayer(2, 1, weight=weight)
    circuit = plica.compile(Circuit([leaf, total], {total: [leaf]}, [total]), semiring="sum-product")
    record = explore_record(circuit, rows=[[1.0]])
    assert "not negative" in record["rows_note"]
    assert "units" not in record["rows"][0]


@pytest.mark.parametrize("value", [1e308, float(np.finfo(np.float64).max), 5e-324])
def test_tensors_of_any_size_have_a_histogram(value: float) -> None:
    numbers = summary(np.asarray([-value, value]))
    assert numbers is not None
    assert numbers["counts"] == [1, *[0] * 14, 1]
    assert numbers["range"] + [numbers["mean"], numbers["deviation"]] == pytest.approx(
        [-value, value, 0.0, value], rel=1e-4
    )


def test_rows_that_the_circuit_refuses_are_refused() -> None:
    leaves = [CategoricalLayer([variable], 1, num_categories=3) for variable in range(2)]
    total = SumLayer(1, 1, arity=2)
    circuit = plica.compile(Circuit([*leaves, total], {total: leaves}, [total]))
    assert explore_record(circuit, rows=[[1.0, 2.0]])["rows"][0]["values"][2]
    with pytest.raises(StructuralPropertyError, match="needs a smooth circuit"):
        explore_record(circuit, rows=[[1.0, np.nan]])


@pytest.mark.filterwarnings("error")
def test_rows_may_be_tensors_with_gradients_and_arrays_that_are_read_only() -> None:
    circuit = plica.compile(image(2))
    rows = np.broadcast_to(np.zeros(4), (2, 4))
    expected = explore_record(circuit, rows=rows)["rows"]
    assert explore_record(circuit, rows=torch.zeros(2, 4, requires_grad=True))["rows"] == expected


def test_rows_without_states_say_why() -> None:
    x, y = (CategoricalLayer([0], 2, num_categories=3) for _ in range(2))
    product, total = HadamardLayer(2), SumLayer(2, 1)
    circuit = plica.compile(Circuit([x, y, product, total], {product: [x, y], total: [product]}, [total]))
    record = explore_record(circuit, rows=[[1.0]])
    assert "decomposable" in record["rows_note"]
    assert record["rows"][0]["values"][-1] == pytest.approx(circuit(torch.tensor([[1]]))[0, 0].tolist(), rel=1e-4)
    assert "units" not in record["rows"][0]


def test_products_of_circuits_are_shown() -> None:
    circuit = plica.compile(multiply(image(2), image(2)))
    assert problems(json.loads(json.dumps(explore_record(circuit))), schema()) == []


def test_programs_have_their_bodies_and_constants() -> None:
    record = explore_record(program())
    assert [stage["name"] for stage in record["stages"]] == ["the Program", "the Program, 0: for_loop"]
    assert record["stages"][0]["nested"] == [[1]]
    lines = [record["texts"][number] for stage in record["stages"][1:] for number in stage["equation"]]
    assert all(line in record["text"] for line in lines)

    def scaled(x, w):
        return x * pnp.exp(w)

    folded = plica.fold_constants(plica.trace(scaled, plica.spec("n"), plica.spec(())), run_time=["w"])
    kept = [fate for fate in explore_record(folded)["stages"][0]["kept"] if fate is not None]
    assert len(kept) == 1


def test_each_branch_has_a_name_of_its_own() -> None:
    def chosen(x):
        return plica.cond(x.sum() > 0, lambda a: a + 1.0, lambda a: a * 2.0, x)

    names = [stage["name"] for stage in explore_record(plica.trace(chosen, plica.spec("n")))["stages"]]
    assert len(set(names)) == 3


@pytest.mark.parametrize(
    ("subject", "options", "message"),
    [
        (3, {}, "found 3 of type int"),
        (image(2), {"rows": [[0.0] * 4]}, "compiled circuits alone"),
        (plica.compile(image(2)), {"rows": [[0.0] * 3]}, r"shape \(B, 4\), found \(1, 3\)"),
        (plica.compile(image(2)), {"rows": [[0.0, 5.0, 0.0, 0.0]]}, "row 0, column 1: 5.0"),
        (image(2), {"names": ["a"]}, "4 variables, found 1"),
        (image(2), {"image_shape": (1, 3, 3)}, "9 entries"),
        (image(2), {"image_shape": (2, 2)}, r"channels, height, width\), found \(2, 2\)"),
        (image(2), {"image_shape": 4}, "channels, height, width"),
        (image(2), {"image_shape": (1, -2, -2)}, "channels, height, width"),
        (image(2), {"names": "abcd"}, "a list of names"),
        (plica.compile(image(2)), {"rows": [["1,5"] * 4]}, "array of numbers"),
        (plica.compile(image(2)), {"rows": [[1.0, 2.0], [3.0]]}, "array of numbers"),
        (type(plica.compile(image(2))), {}, "expected a circuit"),
    ],
    ids=[
        "number",
        "not compiled",
        "width",
        "no category",
        "names",
        "image",
        "two sizes",
        "one size",
        "negative sizes",
        "one name",
        "text",
        "ragged",
        "class",
    ],
)
def test_wrong_arguments_are_refused(subject: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises((DTypeError, InputError), match=message):
        explore_record(subject, **options)
