"""torch's tensors answer all that folding asks about tensors."""

from plica.constants.changes.tensors import Tensors, tensors


def test_torch_answers_what_folding_asks() -> None:
    assert isinstance(tensors(), Tensors)
