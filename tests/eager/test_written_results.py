"""Functions of `plica.numpy` on arrays return memory of their own."""

from plica.eager.namespace import _AT_ONCE
from tests.harness.examples import EXAMPLES
from tests.harness.examples.example import Example
from tests.harness.programs import to_torch
from tests.harness.together import grouped
from tests.harness.written_results import check_written

# `+x` is torch's own, and `asarray` and `from_dlpack` leave an array as it is.
OTHERS = [
    one for one in EXAMPLES if one.eager and one.name not in _AT_ONCE and (one.name != "positive" or not one.call)
]


@grouped("example", OTHERS, ids=str)
def test_results_of_eager_functions_belong_to_the_caller(example: Example) -> None:
    arrays = example.arrays(2, 3)
    check_written(lambda: example.apply(*arrays), arrays)
    tensors = [*map(to_torch, arrays)]
    check_written(lambda: example.apply(*tensors), tensors)
