"""The dtypes that circuits compute in."""

import pytest
import torch

from plica.backend.torch.compiler import TorchCompiler
from plica.errors import UnsupportedError
from plica.queries import log_likelihood, posterior, sample
from tests.harness.circuits import gaussians

REFUSED = (
    r"circuits compute in float32 or float64 \(or float16\), not in (torch\.)?bfloat16; "
    "if a larger module was cast, cast its circuit back"
)


def test_a_cast_to_a_dtype_that_circuits_do_not_compute_in_is_refused_and_taken_back() -> None:
    compiled = TorchCompiler().compile(gaussians())
    x = torch.full((1, compiled.num_variables), 0.5)
    expected = compiled(x)
    compiled.bfloat16()
    for ask in (compiled, lambda x: log_likelihood(compiled, x), lambda x: posterior(compiled, x)):
        with pytest.raises(UnsupportedError, match=REFUSED):
            ask(x)
    with pytest.raises(UnsupportedError, match=REFUSED):
        sample(compiled, 3)
    torch.testing.assert_close(compiled.to(torch.float32)(x), expected, rtol=0.05, atol=0.05)  # leaves were rounded
    with pytest.raises(UnsupportedError, match=REFUSED):
        TorchCompiler(dtype="bfloat16")
