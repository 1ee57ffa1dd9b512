"""Examples of every function of `plica.numpy`, as tables."""

from tests.harness.examples import creation, elementwise, reductions, shapes, sorting
from tests.harness.examples.example import Example

EXAMPLES: tuple[Example, ...] = tuple(
    one for module in (elementwise, reductions, shapes, creation, sorting) for one in module.EXAMPLES
)
