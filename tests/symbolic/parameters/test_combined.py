"""Parameters made of parameters: weights of products of sum layers, and conjugates."""

from typing import Any

import numpy as np
import pytest

from plica.symbolic.dtypes import DataType
from plica.symbolic.initializers import ConstantTensorInitializer
from plica.symbolic.parameters import (
    BlockKroneckerParameter,
    ConjugateParameter,
    ConstantParameter,
    ExpParameter,
    HadamardParameter,
    KroneckerParameter,
    MixingWeightParameter,
    Parameter,
    ReferenceParameter,
    SigmoidParameter,
    SoftmaxParameter,
    SumParameter,
    TensorParameter,
    block_kronecker,
    conjugated,
    dereferenced,
    is_real,
    normal,
)
from tests.harness.oracle import evaluate
from tests.harness.own_leaves import LowRank

RNG = np.random.default_rng(0)


def leaf(*shape: int, dtype: DataType = DataType.REAL) -> Any:
    numbers = RNG.normal(size=shape) + (1j * RNG.normal(size=shape) if dtype == DataType.COMPLEX else 0)
    return TensorParameter(*shape, initializer=ConstantTensorInitializer(numbers), dtype=dtype)


def values(*leaves: Any) -> dict[Any, Any]:
    return {each: each.initializer.value for each in leaves}


@pytest.mark.parametrize(
    ("shapes", "blocks", "kind"),
    [
        (((2, 6), (3, 4)), (3, 2), BlockKroneckerParameter),
        (((2, 6), (3, 4)), (1, 2), BlockKroneckerParameter),
        (((2, 6), (3, 4)), (3, 1), KroneckerParameter),
        (((2, 6), (3, 4)), (1, 1), KroneckerParameter),
        (((2, 3), (3, 4)), (3, 2), KroneckerParameter),
    ],
)
def test_the_weight_of_a_product_of_sums(shapes: Any, blocks: Any, kind: type) -> None:
    """The product of sums is the sum of products, inputs of the first layer slowest."""
    weights = [leaf(*shape) for shape in shapes]
    product = block_kronecker(*weights, *blocks)
    assert isinstance(product.output, kind)
    widths = [shape[1] // number for shape, number in zip(shapes, blocks, strict=True)]
    inputs = [[RNG.normal(size=width) for _ in range(number)] for width, number in zip(widths, blocks, strict=True)]
    sums = [weight.initializer.value @ np.concatenate(parts) for weight, parts in zip(weights, inputs, strict=True)]
    joint = np.concatenate([np.kron(first, second) for first in inputs[0] for second in inputs[1]])
    operands = [weight.initializer.value for weight in weights]
    found = _evaluated(product.output, operands) @ joint
    np.testing.assert_allclose(found, np.kron(*sums), rtol=1e-12)


def _evaluated(op: Any, arrays: Any) -> Any:
    from plica.tracing import namespace
    from tests.harness.run_rule import run_rule

    return run_rule(lambda *operands: op.evaluate(namespace, *operands), *(array[None] for array in arrays))[0]


def test_mixing_weights_multiply_to_a_mixing_weight() -> None:
    weights = [leaf(2, 3), leaf(4, 2)]
    mixing = [Parameter.from_unary(MixingWeightParameter(weight.shape), weight) for weight in weights]
    product = block_kronecker(mixing[0], mixing[1], 3, 2)
    assert isinstance(product.output, MixingWeightParameter)
    dense = [evaluate(weight, values(*weights)).astype(float) for weight in mixing]
    op = BlockKroneckerParameter(*(weight.shape for weight in mixing), blocks1=3, blocks2=2)
    np.testing.assert_allclose(evaluate(product, values(*weights)).astype(float), _evaluated(op, dense), rtol=1e-12)


def test_a_conjugate_of_real_numbers_is_a_reference() -> None:
    parameter = Parameter.from_unary(SoftmaxParameter((2, 3)), leaf(2, 3))
    (reference,) = conjugated(parameter).leaves
    assert isinstance(reference, ReferenceParameter)
    assert not [node for node in conjugated(parameter).nodes if isinstance(node, ConjugateParameter)]


def test_conjugates_keep_the_form_of_a_weight() -> None:
    """And the tensors, real leaves unchanged, whatever is in between."""
    first, second, third = leaf(2, 3, dtype=DataType.COMPLEX), leaf(2, 2), leaf(4, 6, dtype=DataType.COMPLEX)
    kronecker = Parameter.from_nary(KroneckerParameter((2, 3), (2, 2)), first, second)
    inner = Parameter.from_sequence(third, ConjugateParameter((4, 6)), ExpParameter((4, 6)))
    total = Parameter.from_nary(SumParameter((4, 6), (4, 6)), kronecker, inner)
    bent = Parameter.from_nary(
        HadamardParameter((4, 6), (4, 6)), Parameter.from_unary(SigmoidParameter((4, 6)), total), total
    )
    leaves = values(first, second, third)
    for parameter in (kronecker, inner, total, bent, Parameter.from_unary(MixingWeightParameter((4, 6)), total)):
        conjugate = conjugated(parameter)
        assert type(conjugate.output) is type(parameter.output)
        assert {dereferenced(node) for node in conjugate.leaves} <= {first, second, third}
        found = evaluate(conjugate, leaves)
        np.testing.assert_allclose(
            found.astype(complex), evaluate(parameter, leaves).conj().astype(complex), rtol=1e-14
        )
    assert not [node for node in conjugated(inner).nodes if isinstance(node, ConjugateParameter)]
    assert len([node for node in conjugated(kronecker).nodes if isinstance(node, ConjugateParameter)]) == 1


def test_a_custom_leaf_may_be_complex() -> None:
    custom = Parameter.from_input(LowRank(2, 3, rank=1))
    assert not is_real(custom)
    assert is_real(normal((2, 3)))
    assert not is_real(Parameter.from_input(ConstantParameter(2, value=1j)))
    assert isinstance(conjugated(custom).output, ConjugateParameter)
