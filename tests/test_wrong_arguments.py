"""Arguments of wrong types and values, for all public constructors and functions: none ends in an error of Python's."""

from pathlib import Path
from typing import Any

import pytest

from tests.harness.wrong_arguments import CALLS, MORE_WRONG, WRONG, call, raw_errors


@pytest.mark.one_in(3)
@pytest.mark.parametrize("values", [WRONG, pytest.param(MORE_WRONG, marks=pytest.mark.full)], ids=["some", "more"])
@pytest.mark.parametrize("part", CALLS)
def test_no_wrong_argument_ends_in_an_error_from_inside(
    part: str, values: tuple[Any, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    calls = CALLS[part]()
    for one in calls:
        one.function(*one.given, **one.named)  # what the arguments are replaced in works
    assert not [line for one in calls for line in raw_errors(one, values)]


def test_an_error_from_inside_is_found() -> None:
    assert "argument 0 = 'a': TypeError" in " ".join(raw_errors(call(abs, 1)))
